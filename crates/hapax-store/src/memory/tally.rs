//! How many records each tag holds, kept apart from the shards so that one look answers.

use foldhash::fast::RandomState;
use hapax_core::Tag;
use hashbrown::{HashMap, hash_map::Entry};
use parking_lot::Mutex;

use crate::{Counted, Envelope, Usage};

/// What one record adds to which tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Share {
    surface: Tag,
    tenant: Tag,
    counted: Counted,
}

impl Share {
    pub(super) const fn of(record: &Envelope) -> Self {
        Self { surface: record.surface, tenant: record.tenant, counted: record.counted }
    }

    /// A record counts once for a tag, also where surface and tenant are one.
    fn tags(self) -> impl Iterator<Item = Tag> {
        [Some(self.surface), Some(self.tenant).filter(|tenant| *tenant != self.surface)].into_iter().flatten()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Count {
    records: u64,
    tombstones: u64,
}

impl Count {
    fn of(&mut self, counted: Counted) -> &mut u64 {
        match counted {
            Counted::Record => &mut self.records,
            Counted::Tombstone => &mut self.tombstones,
        }
    }
}

const PARTS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Tally {
    parts: [Mutex<HashMap<Tag, Count, RandomState>>; PARTS],
}

impl Tally {
    /// To be called under the lock of the record's shard, so that both tell the same story to whoever asks afterwards.
    pub(super) fn moved(&self, old: Option<Share>, new: Option<Share>) {
        if old == new {
            return;
        }
        if let Some(share) = new {
            share.tags().for_each(|tag| self.add(tag, share.counted));
        }
        if let Some(share) = old {
            share.tags().for_each(|tag| self.take(tag, share.counted));
        }
    }

    pub(super) fn usage(&self, tag: Tag) -> Usage {
        let count = self.part(tag).lock().get(&tag).copied().unwrap_or_default();
        Usage { records: count.records, tombstones: count.tombstones, exact: true }
    }

    fn add(&self, tag: Tag, counted: Counted) {
        *self.part(tag).lock().entry(tag).or_default().of(counted) += 1;
    }

    fn take(&self, tag: Tag, counted: Counted) {
        let mut part = self.part(tag).lock();
        if let Entry::Occupied(mut entry) = part.entry(tag) {
            let count = entry.get_mut().of(counted);
            *count = count.saturating_sub(1);
            if *entry.get() == Count::default() {
                entry.remove();
            }
        }
    }

    fn part(&self, tag: Tag) -> &Mutex<HashMap<Tag, Count, RandomState>> {
        let mixed = tag.0.iter().fold(0u8, |mixed, byte| mixed.rotate_left(3) ^ byte);
        &self.parts[usize::from(mixed) % PARTS]
    }
}
