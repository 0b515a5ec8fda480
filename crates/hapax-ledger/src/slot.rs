//! What the index keeps of a record: 48 bytes.

use hapax_core::{Id, Stamp, Tag, Version};

/// Sixteen bytes made of all of the id, under the store's own seed: ids that somebody chose to look alike do not meet
/// here. What is read from disk is compared with the whole id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Key(pub(crate) u64, pub(crate) u64);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    seeds: [u64; 4],
}

impl Keys {
    pub(crate) fn new(store: &[u8; 16]) -> Self {
        let half = |at: usize| store[at..].first_chunk().copied().map_or(0, u64::from_le_bytes);
        let (a, b) = (half(0), half(8));
        Self {
            seeds: [a | 1, b | 1, a.rotate_left(23) ^ 0x9e37_79b9_7f4a_7c15, b.rotate_left(41) ^ 0xd6e8_feb8_6659_fd93],
        }
    }

    pub(crate) fn key(&self, id: &Id) -> Key {
        let word = |at: usize| id.0[at..].first_chunk().copied().map_or(0, u64::from_le_bytes);
        let [s0, s1, s2, s3] = self.seeds;
        let (a, b, c, d) = (word(0), word(8), word(16), word(24));
        let one = fold(a ^ s0, b ^ s1);
        let two = fold(c ^ s2, d ^ s3);
        let three = fold(a ^ s3, c ^ s1);
        let four = fold(b ^ s2, d ^ s0);
        Key(fold(one ^ s2, two ^ s0), fold(three ^ s1, four ^ s3) ^ one.rotate_left(32) ^ two)
    }
}

const fn fold(a: u64, b: u64) -> u64 {
    let wide = (a as u128).wrapping_mul(b as u128);
    (wide as u64) ^ ((wide >> 64) as u64) ^ a.rotate_left(29) ^ b
}

const LOW: u64 = (1 << 48) - 1;
const OFFSET: u64 = (1 << 27) - 1;
/// No moment: later than every real one.
const NEVER: u64 = LOW;

pub(crate) const LIVE: u32 = 1 << 31;
pub(crate) const REMOVED: u32 = 1 << 30;
pub(crate) const TOMBSTONE: u32 = 1 << 29;
/// Past its `gone`, and no longer counted.
pub(crate) const GONE: u32 = 1 << 28;
pub(crate) const LISTED: u32 = 1 << 27;
/// Bodies lie beside it; how much of them is kept elsewhere, since few records have any.
pub(crate) const HEAVY: u32 = 1 << 26;
const ACCOUNT: u32 = HEAVY - 1;

/// The account of what belongs to nobody.
pub(crate) const NOBODY: u32 = ACCOUNT;

/// The highest version that a slot can hold.
pub(crate) const MOST_VERSION: u64 = LOW;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Slot([u64; 6]);

/// A slot on its way into the index or a hint, with what it names elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entrant {
    pub(crate) slot: Slot,
    /// The surface and tenant of its account.
    pub(crate) tags: Option<(Tag, Tag)>,
    /// How many bytes lie beside it, if it is [`HEAVY`].
    pub(crate) beside: u64,
}

/// Where an entry lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Slot {
    pub(crate) fn new(key: Key, version: Version, place: Place, account: u32, flags: u32) -> Self {
        let mut slot = Self([key.0, key.1, version.0 & LOW, 0, NEVER, NEVER]);
        slot.set_place(place);
        slot.set_marks(account & ACCOUNT | flags & !ACCOUNT);
        slot
    }

    pub(crate) const fn key(&self) -> Key {
        Key(self.0[0], self.0[1])
    }

    /// Versions start at one.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0[2] & LOW == 0
    }

    pub(crate) const fn version(&self) -> Version {
        Version(self.0[2] & LOW)
    }

    /// Offsets and lengths are multiples of eight, offsets stay below 1 GiB: 27 bits and 21 bits.
    pub(crate) const fn place(&self) -> Place {
        let length = (self.0[2] >> 48) as u32 | (self.0[3] as u32 >> 27) << 16;
        Place { segment: (self.0[3] >> 32) as u32, offset: (self.0[3] & OFFSET) * 8, length: length * 8 }
    }

    pub(crate) fn set_place(&mut self, place: Place) {
        let length = u64::from(place.length / 8);
        self.0[2] = self.0[2] & LOW | (length & 0xffff) << 48;
        self.0[3] = u64::from(place.segment) << 32 | (length >> 16 & 0x1f) << 27 | (place.offset / 8) & OFFSET;
    }

    /// For a record: from when on it reads as absent. For a removal: since when.
    pub(crate) const fn gone(&self) -> Option<Stamp> {
        moment(self.0[4])
    }

    pub(crate) fn set_gone(&mut self, at: Option<Stamp>) {
        self.0[4] = self.0[4] & !LOW | raw(at);
    }

    pub(crate) const fn expiry(&self) -> Option<Stamp> {
        moment(self.0[5])
    }

    pub(crate) fn set_expiry(&mut self, at: Option<Stamp>) {
        self.0[5] = self.0[5] & !LOW | raw(at);
    }

    const fn marks(&self) -> u32 {
        (self.0[4] >> 48) as u32 | ((self.0[5] >> 48) as u32) << 16
    }

    fn set_marks(&mut self, marks: u32) {
        self.0[4] = self.0[4] & LOW | u64::from(marks & 0xffff) << 48;
        self.0[5] = self.0[5] & LOW | u64::from(marks >> 16) << 48;
    }

    pub(crate) const fn account(&self) -> u32 {
        self.marks() & ACCOUNT
    }

    pub(crate) fn set_account(&mut self, account: u32) {
        self.set_marks(self.marks() & !ACCOUNT | account & ACCOUNT);
    }

    pub(crate) const fn has(&self, flag: u32) -> bool {
        self.marks() & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u32) {
        self.set_marks(self.marks() | flag);
    }

    pub(crate) fn unset(&mut self, flag: u32) {
        self.set_marks(self.marks() & !flag);
    }

    pub(crate) fn to_bytes(self) -> [u8; 48] {
        let mut bytes = [0; 48];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *chunk = word.to_le_bytes();
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; 48]) -> Self {
        let mut words = [0; 6];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        Self(words)
    }
}

const fn moment(word: u64) -> Option<Stamp> {
    if word & LOW == NEVER { None } else { Some(Stamp(word & LOW)) }
}

/// A moment past the year 10,000 is kept as the last one there is, and still comes before never.
fn raw(at: Option<Stamp>) -> u64 {
    at.map_or(NEVER, |at| at.0.min(NEVER - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_gives_back_what_was_put_into_it() {
        let mut random = crate::testing::Random::from_env("slot");
        for _ in 0..10_000 {
            let place = Place {
                segment: random.next() as u32,
                offset: random.below(1 << 27) * 8,
                length: random.below(1 << 21) as u32 * 8,
            };
            let version = Version(1 + random.below(MOST_VERSION));
            let account = random.below(u64::from(NOBODY)) as u32;
            let mut slot = Slot::new(Key(random.next(), random.next()), version, place, account, LIVE | TOMBSTONE);
            let (gone, expiry) = (Stamp(random.below(1 << 47)), Stamp(random.below(1 << 47)));
            slot.set_gone(Some(gone));
            slot.set_expiry(Some(expiry));
            slot.set(LISTED);
            slot.set(HEAVY);
            assert_eq!((slot.version(), slot.place(), slot.account()), (version, place, account));
            assert_eq!((slot.gone(), slot.expiry()), (Some(gone), Some(expiry)));
            assert!(slot.has(LIVE) && slot.has(TOMBSTONE) && slot.has(LISTED) && !slot.has(GONE) && !slot.has(REMOVED));
            assert_eq!(Slot::from_bytes(&slot.to_bytes()), slot);
            assert!(slot.has(HEAVY));
            slot.unset(HEAVY);
            assert!(!slot.has(HEAVY) && slot.has(LISTED) && slot.account() == account);
            slot.set_gone(None);
            assert_eq!((slot.gone(), slot.account(), slot.place()), (None, account, place));
        }
    }
}
