use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use hapax_core::{Id, Payload};

use super::entry::Answer;

/// So many places are made at a time: memory grows with use, and nothing is moved when it does.
const TOGETHER: usize = 256;

/// Bytes of a body that have room beside its entry: those that can be given away without allocating.
pub(super) const ROOM: usize = Payload::SHORT;

/// One entry, in words that anybody may read while somebody changes them: then they are of no use, but never undefined.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Head {
    id: [AtomicU64; 4],
    answer: [AtomicU64; 9],
    /// How often it was given, in the upper half; below, whether it was since the hand last came by.
    asked: AtomicU64,
    /// Whose it is, as a small number, and one more: 0 is a free place.
    tenant: AtomicU64,
}

/// A short body. In memory beside the entries and not in them, as gates that keep no short bodies need none.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Room([AtomicU64; ROOM / 8]);

type Together<T> = OnceLock<Box<[T; TOGETHER]>>;

/// The places of one shard, by number.
#[derive(Debug)]
pub(super) struct Places {
    heads: Box<[Together<Head>]>,
    rooms: Box<[Together<Room>]>,
}

fn at<T>(all: &[Together<T>], place: u32) -> Option<&T> {
    let place = place as usize;
    Some(&all.get(place / TOGETHER)?.get()?[place % TOGETHER])
}

fn make<T: Default>(all: &[Together<T>], place: u32) -> Option<&T> {
    let together = all.get(place as usize / TOGETHER)?;
    if together.get().is_none() {
        let new: Vec<T> = (0..TOGETHER).map(|_| T::default()).collect();
        let _made = together.set(new.into_boxed_slice().try_into().ok()?);
    }
    at(all, place)
}

fn words(id: &Id) -> [u64; 4] {
    let (words, _) = id.0.as_chunks::<8>();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        let parts = most.div_ceil(TOGETHER);
        Self {
            heads: (0..parts).map(|_| OnceLock::new()).collect(),
            rooms: (0..parts).map(|_| OnceLock::new()).collect(),
        }
    }

    #[inline]
    pub(super) fn head(&self, place: u32) -> Option<&Head> {
        at(&self.heads, place)
    }

    #[inline]
    pub(super) fn room(&self, place: u32) -> Option<&Room> {
        at(&self.rooms, place)
    }

    /// As [`Places::head`]; made if need be.
    pub(super) fn make_head(&self, place: u32) -> Option<&Head> {
        make(&self.heads, place)
    }

    pub(super) fn make_room(&self, place: u32) -> Option<&Room> {
        make(&self.rooms, place)
    }
}

impl Head {
    #[inline]
    pub(super) fn is(&self, id: &Id) -> bool {
        let mut differ = 0;
        for (mine, wanted) in self.id.iter().zip(words(id)) {
            differ |= mine.load(Relaxed) ^ wanted;
        }
        differ == 0
    }

    pub(super) fn hash(&self) -> u64 {
        self.id[0].load(Relaxed)
    }

    #[inline]
    pub(super) fn read(&self) -> Answer {
        let [a, b, c, d, expires, until, decided_wall, small, body] =
            std::array::from_fn(|at| self.answer[at].load(Relaxed));
        Answer { prints: [a, b, c, d], expires, until, decided_wall, small, body }
    }

    pub(super) fn write(&self, id: &Id, tenant: u32, answer: &Answer) {
        for (word, value) in self.id.iter().zip(words(id)) {
            word.store(value, Relaxed);
        }
        let Answer { prints: [a, b, c, d], expires, until, decided_wall, small, body } = *answer;
        for (word, value) in self.answer.iter().zip([a, b, c, d, expires, until, decided_wall, small, body]) {
            word.store(value, Relaxed);
        }
        self.asked.store(0, Relaxed);
        self.set_tenant(tenant);
    }

    /// Notes that it was given. Two at once may count as one, and one that comes late counts for whoever has the place by
    /// then: it is a hint for the hand, and a figure for *explain*.
    #[inline]
    pub(super) fn note_given(&self) {
        self.asked.store(self.asked.load(Relaxed).saturating_add(1 << 32) | 1, Relaxed);
    }

    pub(super) fn given(&self) -> u16 {
        u16::try_from(self.asked.load(Relaxed) >> 32).unwrap_or(u16::MAX)
    }

    /// Whether it was given since this was last asked.
    pub(super) fn take_used(&self) -> bool {
        let asked = self.asked.load(Relaxed);
        self.asked.store(asked & !1, Relaxed);
        asked & 1 == 1
    }

    pub(super) fn tenant(&self) -> Option<u32> {
        self.tenant.load(Relaxed).checked_sub(1).map(|tenant| tenant as u32)
    }

    pub(super) fn set_tenant(&self, tenant: u32) {
        self.tenant.store(u64::from(tenant) + 1, Relaxed);
    }

    pub(super) fn set_free(&self) {
        self.tenant.store(0, Relaxed);
    }
}

impl Room {
    #[inline]
    pub(super) fn read(&self) -> [u8; ROOM] {
        let mut all = [0; ROOM];
        let (chunks, _) = all.as_chunks_mut();
        for (bytes, word) in chunks.iter_mut().zip(&self.0) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
        all
    }

    /// At most [`ROOM`] bytes. The rest becomes zero: whoever is given them is given nothing of those before.
    pub(super) fn write(&self, body: &[u8]) {
        let mut parts = body.chunks(8);
        for word in &self.0 {
            let mut value = [0; 8];
            let part = parts.next().unwrap_or_default();
            value[..part.len()].copy_from_slice(part);
            word.store(u64::from_le_bytes(value), Relaxed);
        }
    }
}

/// An id is a digest already: its own bytes are its hash.
#[inline]
pub(super) fn hash(id: &Id) -> u64 {
    words(id)[0]
}

const _: () = assert!(size_of::<Head>() == 128 && size_of::<Room>() == 64);
