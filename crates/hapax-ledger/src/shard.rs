//! One shard of the index: tables that split in two instead of growing for ever.
//!
//! Whoever changes a table waits for its growth, and all requests wait for the writer. So what grows is small, however
//! large the index is.

use crate::{
    slot::{Key, Slot},
    table::Table,
};

/// A table of so many slots splits when it would grow: moving them takes some ten microseconds.
const MOST: usize = 1024;
/// Of tables that hold fewer on average, one is made.
const FEWEST: usize = 32;
/// Keys are evenly spread. If ever they were not, a table grows at last, rather than be split to no avail for ever.
const MOST_COMMON: u32 = 24;

#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// The table of each key, by its leading bits. Neighbours may share one.
    directory: Vec<u32>,
    /// How many bits that is.
    bits: u32,
    tables: Vec<Table>,
    held: usize,
}

impl Shard {
    pub(crate) fn len(&self) -> usize {
        self.held
    }

    pub(crate) fn bytes(&self) -> usize {
        let beside = self.tables.capacity() * size_of::<Table>() + self.directory.capacity() * size_of::<u32>();
        beside + self.tables.iter().map(Table::bytes).sum::<usize>()
    }

    fn at(&self, key: Key) -> usize {
        // A shift by all 64 bits is none.
        let place = key.0.checked_shr(u64::BITS - self.bits).unwrap_or(0);
        self.directory.get(place as usize).map_or(0, |table| *table as usize)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Slot> {
        self.tables.get(self.at(key))?.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Slot> {
        let at = self.at(key);
        self.tables.get_mut(at)?.get_mut(key)
    }

    /// Returns what was there.
    pub(crate) fn insert(&mut self, slot: Slot) -> Option<Slot> {
        let at = self.at(slot.key());
        let Some(table) = self.tables.get_mut(at) else {
            self.tables.push(Table::default());
            self.directory.push(0);
            return self.insert(slot);
        };
        if table.len() >= MOST && table.is_full() && table.common() < MOST_COMMON {
            self.split(at);
            return self.insert(slot);
        }
        let before = table.insert(slot);
        self.held += usize::from(before.is_none());
        before
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Slot> {
        let at = self.at(key);
        let removed = self.tables.get_mut(at)?.remove(key)?;
        self.held -= 1;
        if self.tables.len() > 1 && self.held < self.tables.len() * FEWEST {
            self.tables = vec![Table::of(0, || self.iter())];
            (self.directory, self.bits) = (vec![0], 0);
        }
        Some(removed)
    }

    /// In the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let tables = self.directory.chunk_by(|one, next| one == next).filter_map(|same| same.first());
        tables.filter_map(|at| self.tables.get(*at as usize)).flat_map(Table::iter)
    }

    fn split(&mut self, at: usize) {
        let (lower, upper) = std::mem::take(&mut self.tables[at]).split();
        if lower.common() > self.bits {
            self.directory = self.directory.iter().flat_map(|table| [*table; 2]).collect();
            self.bits += 1;
        }
        self.tables[at] = lower;
        let new = self.tables.len() as u32;
        self.tables.push(upper);
        let mine = |table: &u32| *table as usize == at;
        let shares = self.directory.iter().filter(|table| mine(table)).count();
        self.directory.iter_mut().filter(|table| mine(table)).skip(shares / 2).for_each(|table| *table = new);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hapax_core::Version;

    use super::*;
    use crate::{slot::Place, testing::Random};

    fn slot(key: Key, version: u64) -> Slot {
        Slot::new(key, Version(version), Place { segment: 1, offset: 8, length: 72 }, 0, 0)
    }

    fn holds(shard: &Shard, map: &BTreeMap<Key, u64>) {
        assert_eq!(shard.len(), map.len());
        assert!(shard.iter().map(|slot| (slot.key(), slot.version().0)).eq(map.iter().map(|(k, v)| (*k, *v))));
        for (key, version) in map {
            assert_eq!(shard.get(*key).map(|slot| slot.version().0), Some(*version));
        }
    }

    #[test]
    fn a_shard_holds_what_a_plain_map_holds_while_it_grows_and_shrinks() {
        let mut random = Random::from_env("shard");
        let mut shard = Shard::default();
        let mut map = BTreeMap::new();
        let mut most = 0;
        // Up, down to nothing, up again: with evenly spread keys, with keys that meet again, with keys in one corner.
        for (round, inserts) in [(0, 5), (1, 1), (2, 5), (3, 0), (4, 0)] {
            for version in 1..60_000_u64 {
                let key = match version % 3 {
                    0 => Key(random.next(), random.below(8)),
                    1 => Key(random.next() & 0xffff_0000_0000_0000, 0),
                    _ => Key(u64::MAX - random.below(300), 1),
                };
                if random.below(5) < inserts {
                    assert_eq!(shard.insert(slot(key, version)).map(|old| old.version().0), map.insert(key, version));
                } else {
                    assert_eq!(shard.remove(key).map(|old| old.version().0), map.remove(&key));
                    let Some(key) = map.range(key..).next().map(|(key, _)| *key) else { continue };
                    assert_eq!(shard.remove(key).map(|old| old.version().0), map.remove(&key));
                }
                most = most.max(shard.tables.len());
                assert_eq!(shard.get(key).map(|slot| slot.version().0), map.get(&key).copied());
            }
            holds(&shard, &map);
            assert_eq!(shard.directory.len(), 1 << shard.bits, "in round {round}");
        }
        assert!(most > 20, "it had only {most} tables");
        assert!(shard.tables.len() < most, "and never became one again");
    }

    #[test]
    fn a_shard_of_any_size_costs_at_most_72_bytes_a_record_and_no_table_grows_large() {
        let mut random = Random::from_env("shard size");
        let mut shard = Shard::default();
        for held in 1..100_000_usize {
            shard.insert(slot(Key(random.next(), random.next()), 1));
            if held > 1_000 {
                assert!(shard.bytes() <= 72 * held, "{} bytes for {held}", shard.bytes());
            }
        }
        let largest = shard.tables.iter().map(Table::bytes).max();
        assert!(largest.is_some_and(|bytes| bytes < 64 * 1024), "{largest:?}");
    }

    #[test]
    fn an_emptied_shard_gives_its_memory_back() {
        let mut random = Random::from_env("emptied shard");
        let mut shard = Shard::default();
        let keys: Vec<_> = (0..50_000).map(|_| Key(random.next(), 0)).collect();
        for key in &keys {
            shard.insert(slot(*key, 1));
        }
        let full = shard.bytes();
        for key in &keys {
            shard.remove(*key);
        }
        assert!(shard.len() == 0 && shard.bytes() < full / 100, "{} of {full} bytes are left", shard.bytes());
    }
}
