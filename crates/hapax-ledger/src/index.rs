//! Which entry of which segment holds the newest version of each id.
//!
//! Only the writer changes it, and only with what is durable: whoever reads here learns nothing that could still be lost.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hapax_core::{Id, Millis, Stamp, Version};
use hapax_store::{Counted, Envelope};
use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::{
    books::Books,
    front::{Earliest, Front, LEAST, Moment},
    shard::Shard,
    slot::{Entrant, GONE, HEAVY, Key, Keys, LISTED, LIVE, NOBODY, Place, REMOVED, Slot, TOMBSTONE},
};

const SHARDS: usize = 1024;
const LIVES: usize = 16;
/// So many records are let go at once, while the writer waits for the books.
pub(crate) const PASSED_ON: usize = 512;

/// A whole record: on its way to the disk, and kept while somebody works on it.
///
/// Whoever asks for the write makes it, and is given it back to drop: the writer, which serves all, neither allocates
/// nor frees.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) id: Id,
    pub(crate) version: Version,
    pub(crate) stamp: Stamp,
    pub(crate) envelope: Envelope,
}

impl Live {
    /// Version and stamp are the writer's to give.
    pub(crate) fn unwritten(id: Id, envelope: Envelope) -> Arc<Self> {
        Arc::new(Self { id, version: Version::NEVER, stamp: Stamp::default(), envelope })
    }

    fn is_live(&self) -> bool {
        self.envelope.lease_end.is_some() || self.envelope.in_doubt
    }

    fn lease_end(&self) -> Option<Stamp> {
        self.envelope.lease_end.map(|due| due.resolve(self.stamp))
    }
}

type Lives = HashMap<Key, Arc<Live>, RandomState>;

#[derive(Debug)]
pub(crate) struct Index {
    keys: Keys,
    shards: Box<[RwLock<Shard>]>,
    /// Few and often asked for, so they are kept together: most swaps need look no further for the version.
    ///
    /// Changed together with the slot, under both locks, this one taken first.
    lives: Box<[RwLock<Lives>]>,
    books: Mutex<Books>,
    /// Held during a pass that fills a front: of two at once each would lose what came in during the other.
    filling: Mutex<()>,
}

/// A durable write, on its way to be seen.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) entrant: Entrant,
    /// `None`: a removal.
    record: Option<Arc<Live>>,
}

/// What nobody needs any more, for somebody else to drop.
#[derive(Debug)]
pub(crate) struct Spent {
    _written: Option<Arc<Live>>,
    _before: Option<Arc<Live>>,
}

impl Update {
    pub(crate) fn record(key: Key, place: Place, record: Arc<Live>) -> Self {
        let Live { version, stamp, envelope, .. } = &*record;
        let mut flags = if record.is_live() { LIVE } else { 0 };
        if envelope.counted == Counted::Tombstone {
            flags |= TOMBSTONE;
        }
        if !envelope.entries.is_empty() {
            flags |= LISTED;
        }
        if envelope.beside > 0 {
            flags |= HEAVY;
        }
        let mut slot = Slot::new(key, *version, place, NOBODY, flags);
        slot.set_gone(envelope.gone.map(|due| due.resolve(*stamp)));
        slot.set_expiry(envelope.expiry.map(|due| due.resolve(*stamp)));
        let entrant = Entrant { slot, tags: Some((envelope.surface, envelope.tenant)), beside: envelope.beside };
        Self { entrant, record: Some(record) }
    }

    pub(crate) fn removal(key: Key, version: Version, since: Stamp, place: Place) -> Self {
        let mut slot = Slot::new(key, version, place, NOBODY, REMOVED);
        slot.set_gone(Some(since));
        Self { entrant: Entrant { slot, tags: None, beside: 0 }, record: None }
    }
}

impl Index {
    pub(crate) fn new(store: &[u8; 16], oldest: u32) -> Self {
        Self {
            keys: Keys::new(store),
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            lives: (0..LIVES).map(|_| RwLock::default()).collect(),
            books: Mutex::new(Books::new(oldest)),
            filling: Mutex::default(),
        }
    }

    pub(crate) fn key(&self, id: &Id) -> Key {
        self.keys.key(id)
    }

    fn lives(&self, key: Key) -> &RwLock<Lives> {
        &self.lives[(key.1 >> 32) as usize % LIVES]
    }

    /// Neighbours in this order are neighbours in memory.
    pub(crate) fn order(&self, key: Key) -> (usize, Key) {
        (key.1 as usize % SHARDS, key)
    }

    fn shard(&self, key: Key) -> &RwLock<Shard> {
        // Not the half that the shard sorts by.
        &self.shards[key.1 as usize % SHARDS]
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }

    pub(crate) fn slot(&self, key: Key) -> Option<Slot> {
        self.shard(key).read().get(key).copied()
    }

    /// The newest version, and whether somebody is at work on it.
    pub(crate) fn version(&self, key: Key) -> (Version, bool) {
        if let Some(live) = self.lives(key).read().get(&key) {
            return (live.version, true);
        }
        (self.slot(key).map_or(Version::NEVER, |slot| slot.version()), false)
    }

    pub(crate) fn find(&self, key: Key) -> Option<(Slot, Option<Arc<Live>>)> {
        loop {
            let slot = self.slot(key)?;
            if !slot.has(LIVE) {
                return Some((slot, None));
            }
            // If it has just changed, so has its slot.
            let live = self.lives(key).read().get(&key).cloned();
            if let Some(live) = live.filter(|live| live.version == slot.version()) {
                return Some((slot, Some(live)));
            }
        }
    }

    pub(crate) fn apply(&self, books: &mut Books, update: Update, memory: Millis) -> Spent {
        let Update { entrant: Entrant { mut slot, tags, beside }, record } = update;
        let key = slot.key();
        let mut before = None;
        let mut lives = self.lives(key).write();
        let mut shard = self.shard(key).write();
        let old = shard.get(key).copied();
        if let Some(old) = &old {
            unplan(books, old, memory);
            if old.has(LIVE) {
                before = lives.remove(&key);
            }
            if let Some(live) = &before {
                books.remove_lease(live.lease_end(), live.envelope.in_doubt, live.id);
            }
            if old.has(LISTED) {
                books.strike(key);
            }
        }
        let known = match (&old, tags) {
            (Some(_), Some((surface, tenant))) => books.accounts.find(surface, tenant),
            (None, _) | (_, None) => NOBODY,
        };
        match &old {
            // The common case, complete after begin: nothing but its bytes is counted anew.
            Some(old) if known != NOBODY && Books::same_standing(old, &slot, known) => {
                slot.set_account(known);
                books.replace(old, &slot, beside);
            }
            _ => {
                if let Some((surface, tenant)) = tags {
                    slot.set_account(books.accounts.take(surface, tenant));
                }
                if let Some(old) = &old {
                    books.leave(old);
                }
                books.enter(&slot, beside);
            }
        }
        plan(books, &slot, memory);
        if let Some(record) = &record {
            books.enlist(key, record.id, &record.envelope.entries);
        }
        let written = match record {
            Some(live) if live.is_live() => {
                books.add_lease(live.lease_end(), live.envelope.in_doubt, live.id);
                lives.insert(key, live);
                None
            }
            other => other,
        };
        shard.insert(slot);
        Spent { _written: written, _before: before }
    }

    /// The same version lies elsewhere now. `marker`: only the version was worth keeping.
    pub(crate) fn moved(
        &self,
        books: &mut Books,
        key: Key,
        version: Version,
        from: Place,
        to: Place,
        marker: bool,
    ) -> Option<Entrant> {
        let mut shard = self.shard(key).write();
        let slot = shard.get_mut(key)?;
        if slot.version() != version || slot.place() != from {
            return None;
        }
        books.weigh(slot, false);
        slot.set_place(to);
        if marker {
            slot.set(REMOVED);
        }
        books.weigh(slot, true);
        Some(Entrant { slot: *slot, tags: books.accounts.tags(slot.account()), beside: books.beside(slot) })
    }

    /// Records past their `gone` stop being counted, listed and leased; later they are forgotten. At most `most` steps;
    /// says whether there was less to do.
    pub(crate) fn pass_on(&self, books: &mut Books, now: Stamp, memory: Millis, most: usize) -> bool {
        for _ in 0..most {
            let Some(moment) = books.going.first(now) else { return true };
            let (at, key) = moment;
            books.going.remove(Stamp(at), key);
            let mut lives = self.lives(key).write();
            let mut shard = self.shard(key).write();
            let Some(slot) = shard.get(key).copied() else { continue };
            if next_step(&slot, memory) != Some(Stamp(at)) {
                continue;
            }
            if slot.has(REMOVED) || slot.has(GONE) {
                books.leave(&slot);
                shard.remove(key);
                continue;
            }
            if let Some(live) = lives.remove(&key) {
                books.remove_lease(live.lease_end(), live.envelope.in_doubt, live.id);
            }
            books.strike(key);
            unplan(books, &slot, memory);
            books.leave(&slot);
            let mut gone = Slot::new(key, slot.version(), slot.place(), NOBODY, GONE);
            gone.set_gone(slot.gone());
            books.enter(&gone, 0);
            plan(books, &gone, memory);
            shard.insert(gone);
        }
        false
    }

    /// One pass: the moments at which something goes. None, if somebody else has just made one that goes as far.
    pub(crate) fn refill_going(&self, memory: Millis, until: Stamp) {
        self.refill(|books| &mut books.going, |slot| next_step(slot, memory), until);
    }

    pub(crate) fn refill_expiry(&self, until: Stamp) {
        self.refill(|books| &mut books.expiry, expiry, until);
    }

    fn refill(&self, front: impl Fn(&mut Books) -> &mut Front, moment: impl Fn(&Slot) -> Option<Stamp>, until: Stamp) {
        let _filling = self.filling.lock();
        if front(&mut self.books()).covers(until) {
            return;
        }
        front(&mut self.books()).start_pass();
        let asked = (self.len() / 16).max(LEAST);
        let found = self.earliest(None, asked, moment);
        front(&mut self.books()).end_pass(found, asked);
    }

    pub(crate) fn earliest_expiries(&self, after: Option<Moment>, most: usize) -> Vec<Moment> {
        self.earliest(after, most, expiry)
    }

    fn earliest(&self, after: Option<Moment>, most: usize, moment: impl Fn(&Slot) -> Option<Stamp>) -> Vec<Moment> {
        let mut earliest = Earliest::new(most);
        for shard in &self.shards {
            for slot in shard.read().iter() {
                if let Some(at) = moment(slot) {
                    let found = (at.0, slot.key());
                    if after.is_none_or(|after| found > after) {
                        earliest.offer(found);
                    }
                }
            }
        }
        earliest.finish()
    }

    /// One pass: the least recently written records of these accounts behind a version.
    pub(crate) fn oldest_of(&self, accounts: &[u32], after: Version, most: usize) -> Vec<(u64, Key)> {
        let mut earliest = Earliest::new(most);
        for shard in &self.shards {
            for slot in shard.read().iter() {
                if accounts.contains(&slot.account()) && slot.version() > after {
                    earliest.offer((slot.version().0, slot.key()));
                }
            }
        }
        earliest.finish()
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// What the slots take in memory; live records and lists come on top.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().bytes()).sum()
    }

    /// For recovery: the highest version wins, and of two copies the later one.
    pub(crate) fn load(&self, books: &mut Books, entrant: Entrant) {
        let Entrant { mut slot, tags, beside } = entrant;
        let key = slot.key();
        let mut shard = self.shard(key).write();
        if let Some(old) = shard.get(key).copied() {
            if old.version() > slot.version() {
                return;
            }
            books.leave(&old);
        }
        slot.set_account(tags.map_or(NOBODY, |(surface, tenant)| books.accounts.take(surface, tenant)));
        books.enter(&slot, beside);
        shard.insert(slot);
    }

    /// After recovery: the slots whose records have to be read again, because they are live or in lists.
    pub(crate) fn unread(&self) -> Vec<Slot> {
        let mut unread = Vec::new();
        for shard in &self.shards {
            unread.extend(shard.read().iter().filter(|slot| slot.has(LIVE) || slot.has(LISTED)).copied());
        }
        unread
    }

    /// After recovery: what one of those turned out to be.
    pub(crate) fn revive(&self, live: Live) {
        let key = self.key(&live.id);
        let mut books = self.books();
        books.enlist(key, live.id, &live.envelope.entries);
        books.add_lease(live.lease_end(), live.envelope.in_doubt, live.id);
        if live.is_live() {
            self.lives(key).write().insert(key, Arc::new(live));
        }
    }
}

fn expiry(slot: &Slot) -> Option<Stamp> {
    if slot.has(GONE) || slot.has(REMOVED) { None } else { slot.expiry() }
}

/// When something will happen to this slot by itself.
pub(crate) fn next_step(slot: &Slot, memory: Millis) -> Option<Stamp> {
    let gone = slot.gone()?;
    Some(if slot.has(REMOVED) || slot.has(GONE) { gone.plus(memory) } else { gone })
}

fn plan(books: &mut Books, slot: &Slot, memory: Millis) {
    if let Some(at) = next_step(slot, memory) {
        books.going.add(at, slot.key());
    }
    if let Some(at) = expiry(slot) {
        books.expiry.add(at, slot.key());
    }
}

fn unplan(books: &mut Books, slot: &Slot, memory: Millis) {
    if let Some(at) = next_step(slot, memory) {
        books.going.remove(at, slot.key());
    }
    if let Some(at) = expiry(slot) {
        books.expiry.remove(at, slot.key());
    }
}
