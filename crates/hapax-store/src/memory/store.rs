use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use hapax_core::{Id, Millis, Stamp, Tag, Version};

use super::{
    bodies::Bodies,
    earliest::Earliest,
    place::{FeedPlace, Place},
    shard::Shards,
    slot::Slot,
    tally::{Share, Tally},
    watch::MemoryWatch,
};
use crate::{
    Answer, BodyId, BodyInfo, Changes, Clock, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store,
    StoreError, Swap, SystemClock, Usage, Watch,
};

/// Records that live and die with the process.
pub struct MemoryStore {
    shards: Arc<Shards>,
    tally: Tally,
    bodies: Bodies,
    clock: Arc<dyn Clock>,
    late_write_window: Millis,
    /// The highest version given out.
    highest: AtomicU64,
    /// The highest version of a removal that was forgotten.
    forgotten: AtomicU64,
}

impl MemoryStore {
    pub const LATE_WRITE_WINDOW: Millis = Millis::from_secs(60);

    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            shards: Arc::new(Shards::new()),
            tally: Tally::default(),
            bodies: Bodies::default(),
            clock,
            late_write_window: Self::LATE_WRITE_WINDOW,
            highest: AtomicU64::new(Version::NEVER.0),
            forgotten: AtomicU64::new(Version::NEVER.0),
        }
    }

    /// How long a removal's version is remembered at least: twice the longest time-out of whoever writes.
    #[must_use]
    pub const fn with_late_write_window(mut self, window: Millis) -> Self {
        self.late_write_window = window;
        self
    }

    fn read(&self, id: &Id) -> Snapshot {
        let shard = self.shards.of(id).lock();
        seen(shard.find(id).1, self.clock.now())
    }

    fn checked_write(&self, id: &Id, expected: Version, next: &mut Option<Envelope>) -> Result<Swap, StoreError> {
        match next.as_ref().map(|record| record.entries.len()) {
            Some(count) if count > Envelope::MOST_ENTRIES => Err(Self::refuse(format!(
                "{count} index entries in one record, at most {} are kept",
                Envelope::MOST_ENTRIES
            ))),
            Some(_) | None => Ok(self.write(id, expected, next)),
        }
    }

    fn write(&self, id: &Id, expected: Version, record: &mut Option<Envelope>) -> Swap {
        let share = record.as_ref().map(Share::of);
        let mut shard = self.shards.of(id).lock();
        let clock = self.clock.now();
        if let Some(latest) = shard.forget_removals(clock, self.late_write_window) {
            self.forgotten.fetch_max(latest.0, Ordering::SeqCst);
        }
        let (at, slot) = shard.find(id);
        if slot.map_or(Version::NEVER, |slot| slot.version) != expected {
            return Swap::Conflict(seen(slot, clock));
        }
        let stamp = slot.map_or(clock, |slot| clock.max(slot.stamp));
        let version = Version(self.highest.fetch_add(1, Ordering::SeqCst) + 1);
        shard.write(id, at, record, version, stamp);
        self.tally.moved(record.as_ref().map(Share::of), share);
        let watched = shard.watched(id);
        drop(shard);
        if let Some(wakes) = watched {
            wakes.send_replace(());
        }
        Swap::Swapped { version, stamp }
    }

    fn page(&self, index: Index, after: Option<&Cursor>, limit: usize) -> Result<Page<Id>, StoreError> {
        let after = after.map(Place::parse).transpose()?;
        let mut found = Earliest::new(limit);
        for shard in self.shards.iter() {
            shard.lock().scan(index, after, &mut found);
        }
        let more = found.is_full();
        let (items, last) = found.finish();
        Ok(Page { items, next: last.filter(|_| more).map(Place::cursor) })
    }

    fn feed(&self, after: Option<&Cursor>, limit: usize) -> Result<Changes, StoreError> {
        // Before the shards are read: see the module.
        let highest = Version(self.highest.load(Ordering::SeqCst));
        let start = FeedPlace { through: Version::NEVER, began: highest };
        let from = after.map_or(Ok(start), FeedPlace::parse)?;
        let clock = self.clock.now();
        let mut found = Earliest::new(limit);
        for shard in self.shards.iter() {
            shard.lock().changes(from.through, highest, clock, &mut found);
        }
        // After the shards are read, or a removal forgotten meanwhile would be skipped in silence.
        if Version(self.forgotten.load(Ordering::SeqCst)) > from.through.max(from.began) {
            return Ok(Changes::Gap { oldest: start.cursor() });
        }
        let more = found.is_full();
        let (items, last) = found.finish();
        let through = last.filter(|_| more).unwrap_or(highest).max(from.through);
        Ok(Changes::Page { items, next: FeedPlace { through, began: from.began }.cursor() })
    }

    fn refuse(reason: String) -> StoreError {
        StoreError::Unsupported { store: "memory".into(), reason }
    }
}

fn seen(slot: Option<&Slot>, clock: Stamp) -> Snapshot {
    slot.map_or(Snapshot { record: None, version: Version::NEVER, stamp: Stamp(0), now: clock }, |slot| {
        slot.snapshot(clock)
    })
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock::new()))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("highest", &self.highest)
            .field("late_write_window", &self.late_write_window)
            .finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        Box::pin(async move { Ok(self.read(id)) })
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, mut next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(async move { self.checked_write(id, expected, &mut next) })
    }

    fn swap_now(&self, id: &Id, expected: Version, next: &mut Option<Envelope>) -> Option<Result<Swap, StoreError>> {
        Some(self.checked_write(id, expected, next))
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move { Ok(Box::new(MemoryWatch::new(Arc::clone(&self.shards), *id)) as Box<dyn Watch>) })
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        Box::pin(async move { self.page(index, after, limit) })
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        Box::pin(async move { self.feed(after, limit) })
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        Box::pin(async move {
            self.bodies.put(*owner, body, bytes, self.clock.now());
            Ok(())
        })
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        Box::pin(async move { Ok(self.bodies.get(body)) })
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        Box::pin(async move {
            self.bodies.remove(body);
            Ok(())
        })
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        Box::pin(async move { self.bodies.list(after, limit) })
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        Box::pin(async move { Ok(self.tally.usage(tag)) })
    }

    fn now(&self) -> Option<Stamp> {
        Some(self.clock.now())
    }

    fn durability(&self) -> Durability {
        Durability::BestEffort("memory".into())
    }

    fn level(&self) -> Level {
        Level::Full
    }

    fn name(&self) -> String {
        "memory".into()
    }

    fn single_writer(&self) -> bool {
        true
    }
}
