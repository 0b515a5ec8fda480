use std::sync::{
    OnceLock,
    atomic::{
        AtomicU32, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// A word is a place and some bits of its hash, so that hardly ever an entry is loaded that is not the one.
const PLACE_BITS: u32 = 22;
const PLACE: u32 = (1 << PLACE_BITS) - 1;

/// Places that a word can name: all but the one that would read as an empty word.
pub(super) const MOST_PLACES: usize = PLACE as usize;

const FIRST_LENGTH: usize = 64;

/// Each twice as long as the one before; the last one has room for all places.
const LENGTHS: usize = 18;

/// Where the entry of a hash lies: open addressing over words of four bytes, nearly always one line of memory.
///
/// Read by anybody at any time, changed by one at a time. Who reads while it is changed may miss an entry or be sent to
/// a wrong one, and has to find out by other means. An outgrown table is kept, since somebody may be reading it: all of
/// them together are as long as the last.
#[derive(Debug, Default)]
pub(super) struct Index {
    tables: [OnceLock<Box<[AtomicU32]>>; LENGTHS],
    /// Which of them counts.
    current: AtomicUsize,
}

fn word(hash: u64, place: u32) -> u32 {
    ((hash >> (32 + PLACE_BITS)) as u32) << PLACE_BITS | (place + 1)
}

fn empty(length: usize) -> Box<[AtomicU32]> {
    (0..length).map(|_| AtomicU32::default()).collect()
}

fn put(words: &[AtomicU32], hash: u64, place: u32) {
    let mask = words.len() - 1;
    let mut at = hash as usize & mask;
    while words[at].load(Relaxed) != 0 {
        at = (at + 1) & mask;
    }
    words[at].store(word(hash, place), Relaxed);
}

impl Index {
    #[inline]
    fn words(&self) -> Option<&[AtomicU32]> {
        self.tables.get(self.current.load(Acquire))?.get().map(|words| &**words)
    }

    /// Shows the places under this hash, until one is the wanted.
    #[inline]
    pub(super) fn find<T>(&self, hash: u64, mut wanted: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let words = self.words()?;
        let mask = words.len() - 1;
        let bits = word(hash, 0) & !PLACE;
        let mut at = hash as usize & mask;
        // Counted, so that whoever reads a table under change comes to an end.
        for _ in 0..words.len() {
            let word = words[at].load(Relaxed);
            if word == 0 {
                return None;
            }
            if word & !PLACE == bits
                && let Some(found) = wanted((word & PLACE) - 1)
            {
                return Some(found);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Adds one to `known` others. `hash_of` says what the entry at a place has for a hash.
    pub(super) fn insert(&self, hash: u64, place: u32, known: usize, hash_of: impl Fn(u32) -> u64) {
        let current = self.current.load(Relaxed);
        let words = self.tables[current].get_or_init(|| empty(FIRST_LENGTH));
        if (known + 1) * 4 <= words.len() * 3 || current + 1 == LENGTHS {
            return put(words, hash, place);
        }
        let longer = empty(words.len() * 2);
        for word in words {
            let word = word.load(Relaxed);
            if word != 0 {
                let place = (word & PLACE) - 1;
                put(&longer, hash_of(place), place);
            }
        }
        put(&longer, hash, place);
        // Each length is reached once: nothing makes the index shorter again.
        let _new = self.tables[current + 1].set(longer);
        self.current.store(current + 1, Release);
    }

    /// Takes one out, and moves those up that had to give way to it.
    pub(super) fn remove(&self, hash: u64, place: u32, hash_of: impl Fn(u32) -> u64) {
        let Some(words) = self.words() else { return };
        let mask = words.len() - 1;
        let mut hole = hash as usize & mask;
        let wanted = word(hash, place);
        while words[hole].load(Relaxed) != wanted {
            if words[hole].load(Relaxed) == 0 {
                return;
            }
            hole = (hole + 1) & mask;
        }
        let mut next = (hole + 1) & mask;
        loop {
            let word = words[next].load(Relaxed);
            if word == 0 {
                break;
            }
            let from_home = next.wrapping_sub(hash_of((word & PLACE) - 1) as usize) & mask;
            if from_home >= (next.wrapping_sub(hole) & mask) {
                words[hole].store(word, Relaxed);
                hole = next;
            }
            next = (next + 1) & mask;
        }
        words[hole].store(0, Relaxed);
    }

    pub(super) fn clear(&self) {
        for word in self.words().unwrap_or_default() {
            word.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Taking entries out of crowded neighbourhoods lost those that had given way to them.
    #[test]
    fn whatever_is_taken_out_the_others_are_found() {
        for spread in [1, 3, 60, 1_000_003] {
            let index = Index::default();
            // Many homes shared, and some beyond the end of the table, which go on at its start.
            let hash_of = |place: u32| u64::from(place % spread).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut there = std::collections::BTreeSet::new();
            let mut state = 7_u64;
            for _ in 0..6_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = (state >> 40) as u32 % 300;
                if there.remove(&place) {
                    index.remove(hash_of(place), place, hash_of);
                } else {
                    index.insert(hash_of(place), place, there.len(), hash_of);
                    there.insert(place);
                }
                let found = |place: u32| index.find(hash_of(place), |found| (found == place).then_some(())).is_some();
                assert!((0..300).all(|place| found(place) == there.contains(&place)));
            }
            index.clear();
            assert!((0..300).all(|place| index.find(hash_of(place), |found| (found == place).then_some(())).is_none()));
        }
    }

    #[test]
    fn the_last_place_has_a_word_of_its_own() {
        let (index, last) = (Index::default(), MOST_PLACES as u32 - 1);
        for (known, place) in [0, last].into_iter().enumerate() {
            index.insert(u64::MAX, place, known, |_| u64::MAX);
        }
        for place in [0, last] {
            assert_eq!(index.find(u64::MAX, |found| (found == place).then_some(found)), Some(place));
        }
        const { assert!(MOST_PLACES * 4 <= (FIRST_LENGTH << (LENGTHS - 1)) * 3) };
    }
}
