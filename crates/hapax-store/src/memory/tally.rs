//! How many records each tag holds and what they take, kept apart from the shards so that one look answers.

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
    weight: u64,
}

impl Share {
    pub(super) const fn of(record: &Envelope) -> Self {
        let Envelope { surface, tenant, counted, .. } = record;
        Self { surface: *surface, tenant: *tenant, counted: *counted, weight: record.weight() }
    }

    fn counts_as(self, other: Self) -> bool {
        (self.surface, self.tenant, self.counted) == (other.surface, other.tenant, other.counted)
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
    bytes: u64,
}

impl Count {
    fn add(&mut self, share: Share) {
        match share.counted {
            Counted::Record => {
                self.records += 1;
                self.bytes = self.bytes.saturating_add(share.weight);
            }
            Counted::Tombstone => self.tombstones += 1,
        }
    }

    fn weigh(&mut self, old: Share, new: Share) {
        if new.counted == Counted::Record {
            self.bytes = self.bytes.saturating_add(new.weight).saturating_sub(old.weight);
        }
    }

    fn take(&mut self, share: Share) {
        match share.counted {
            Counted::Record => {
                self.records = self.records.saturating_sub(1);
                self.bytes = self.bytes.saturating_sub(share.weight);
            }
            Counted::Tombstone => self.tombstones = self.tombstones.saturating_sub(1),
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
        // The common case, complete after begin: only what it takes is another.
        if let (Some(old), Some(new)) = (old, new)
            && old.counts_as(new)
        {
            return new.tags().for_each(|tag| self.part(tag).lock().entry(tag).or_default().weigh(old, new));
        }
        if let Some(share) = new {
            share.tags().for_each(|tag| self.part(tag).lock().entry(tag).or_default().add(share));
        }
        if let Some(share) = old {
            share.tags().for_each(|tag| self.take(tag, share));
        }
    }

    pub(super) fn usage(&self, tag: Tag) -> Usage {
        let count = self.part(tag).lock().get(&tag).copied().unwrap_or_default();
        Usage { records: count.records, tombstones: count.tombstones, bytes: count.bytes, exact: true }
    }

    fn take(&self, tag: Tag, share: Share) {
        let mut part = self.part(tag).lock();
        if let Entry::Occupied(mut entry) = part.entry(tag) {
            entry.get_mut().take(share);
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
