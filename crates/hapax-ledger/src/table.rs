//! A part of the index: an array sorted by key with gaps in it.
//!
//! Keys are evenly spread, so a key's place is guessed from its value and found a few slots further on. The array is
//! between 70 and 85 percent full, which is what keeps the index within 72 bytes a record; a table that doubles
//! would be half empty for half of its life.

use crate::slot::{Key, Slot};

#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    homes: usize,
    held: usize,
    /// How many leading bits all keys have in common: they say nothing about the place.
    common: u32,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.held
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    fn home(&self, key: Key) -> usize {
        ((u128::from(key.0 << self.common) * self.homes as u128) >> 64) as usize
    }

    /// Where the key is, or where it would have to go.
    fn seek(&self, key: Key) -> Result<usize, usize> {
        let mut at = self.home(key);
        while let Some(slot) = self.slots.get(at) {
            if slot.is_empty() || slot.key() > key {
                return Err(at);
            }
            if slot.key() == key {
                return Ok(at);
            }
            at += 1;
        }
        Err(at)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Slot> {
        self.seek(key).ok().map(|at| &self.slots[at])
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Slot> {
        let at = self.seek(key).ok()?;
        self.slots.get_mut(at)
    }

    /// Returns what was there.
    pub(crate) fn insert(&mut self, slot: Slot) -> Option<Slot> {
        if self.is_full() {
            self.resize(grown(self.homes));
        }
        loop {
            let at = match self.seek(slot.key()) {
                Ok(at) => return Some(std::mem::replace(&mut self.slots[at], slot)),
                Err(at) => at,
            };
            let gap = self.slots.get(at..).and_then(|rest| rest.iter().position(Slot::is_empty));
            if let Some(gap) = gap {
                self.slots.copy_within(at..at + gap, at + 1);
                self.slots[at] = slot;
                self.held += 1;
                return None;
            }
            self.resize(grown(self.homes));
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Slot> {
        let at = self.seek(key).ok()?;
        let removed = self.slots[at];
        // What follows moves up, unless it already is at home.
        let mut end = at + 1;
        while let Some(next) = self.slots.get(end)
            && !next.is_empty()
            && self.home(next.key()) < end
        {
            end += 1;
        }
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = Slot::default();
        self.held -= 1;
        if self.homes > 64 && self.held * 3 < self.homes {
            self.resize(self.held * 3 / 2);
        }
        Some(removed)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| !slot.is_empty())
    }

    pub(crate) fn common(&self) -> u32 {
        self.common
    }

    /// One more makes it grow.
    pub(crate) fn is_full(&self) -> bool {
        (self.held + 1) * 20 > self.homes * 17
    }

    /// In two, by the first bit that its keys need not have in common.
    pub(crate) fn split(self) -> (Self, Self) {
        let upper = |slot: &Slot| (slot.key().0 << self.common) >> 63 == 1;
        let common = self.common + 1;
        let part = |wanted: bool| Self::of(common, || self.iter().filter(move |slot| upper(slot) == wanted));
        (part(false), part(true))
    }

    /// Of slots that come in the order of their keys, with as much room as it has right after growing.
    pub(crate) fn of<'a, I: Iterator<Item = &'a Slot>>(common: u32, slots: impl Fn() -> I) -> Self {
        let held = slots().count();
        let mut table = Self { slots: Vec::new(), homes: 0, held, common };
        table.lay_out((held * 7).div_ceil(5).max(8), slots);
        table
    }

    fn resize(&mut self, homes: usize) {
        let old = std::mem::take(&mut self.slots);
        self.lay_out(homes, || old.iter().filter(|slot| !slot.is_empty()));
    }

    fn lay_out<'a, I: Iterator<Item = &'a Slot>>(&mut self, mut homes: usize, slots: impl Fn() -> I) {
        loop {
            self.homes = homes;
            self.slots = Vec::new();
            let room = homes + overhang(homes);
            self.slots.reserve_exact(room);
            self.slots.resize(room, Slot::default());
            // Both are sorted, so each goes home or right behind the one before.
            let mut next = 0;
            let fits = slots().all(|slot| {
                let at = self.home(slot.key()).max(next);
                next = at + 1;
                self.slots.get_mut(at).map(|free| *free = *slot).is_some()
            });
            if fits {
                return;
            }
            homes = grown(homes);
        }
    }
}

/// Slots behind the last home, for the run that would otherwise have to wrap around.
const fn overhang(homes: usize) -> usize {
    4 + homes / 64
}

/// By a fifth: from 85 percent full to 70.
fn grown(homes: usize) -> usize {
    (homes * 6).div_ceil(5).max(8)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hapax_core::Version;

    use super::*;
    use crate::slot::Place;

    fn slot(key: Key, version: u64) -> Slot {
        Slot::new(key, Version(version), Place { segment: 1, offset: 8, length: 72 }, 0, 0)
    }

    #[test]
    fn a_table_holds_what_a_plain_map_holds_and_keeps_its_order() {
        let mut random = crate::testing::Random::from_env("table");
        let mut table = Table::default();
        let mut map = BTreeMap::new();
        for version in 1..60_000_u64 {
            // Few keys, some of them neighbours: runs, removals from their middle, the end of the array.
            let key =
                Key(random.next() & if version % 3 == 0 { u64::MAX } else { 0xf0ff_0000_0000_0000 }, random.below(8));
            if random.below(5) < 3 {
                assert_eq!(table.insert(slot(key, version)).map(|old| old.version().0), map.insert(key, version));
            } else {
                assert_eq!(table.remove(key).map(|old| old.version().0), map.remove(&key));
            }
            assert_eq!(table.len(), map.len());
        }
        assert!(table.iter().map(|slot| (slot.key(), slot.version().0)).eq(map.iter().map(|(k, v)| (*k, *v))));
        for (key, version) in &map {
            assert_eq!(table.get(*key).map(|slot| slot.version().0), Some(*version));
        }
    }

    #[test]
    fn an_index_of_any_size_costs_at_most_72_bytes_a_record() {
        let mut random = crate::testing::Random::from_env("table size");
        let mut table = Table::default();
        for held in 1..40_000_usize {
            table.insert(slot(Key(random.next(), random.next()), 1));
            if held > 1_000 {
                assert!(table.bytes() <= 72 * held, "{} bytes for {held}", table.bytes());
            }
        }
    }
}
