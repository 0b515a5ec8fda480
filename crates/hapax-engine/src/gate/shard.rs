use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use hapax_core::{Fingerprint, Id, Outcome, Payload, Replay, Stamp, Tag, identity::Scheme};
use parking_lot::Mutex;

use super::{
    books::Books,
    entry::{Answer, Where},
    index::Index,
    kept::Kept,
    places::{Head, Places, hash},
};

/// A part of the gate: changed by one at a time, read by anybody without waiting.
///
/// The version is odd while something is changed, and another one afterwards. Who reads looks at it before and after;
/// if it was odd or has moved, what was read in between may belong to two entries, is thrown away, and is read again
/// under the lock. So a look-up writes nothing but the mark on its entry, and the processor may begin the next one
/// while it waits for the memory of this one: a lock would forbid that, even where nobody holds it.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard {
    version: AtomicU64,
    table: Table,
    books: Mutex<Books>,
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) index: Index,
    pub(super) places: Places,
}

impl Table {
    #[inline]
    pub(super) fn find(&self, id: &Id) -> Option<(u32, &Head)> {
        self.index.find(hash(id), |place| {
            let head = self.places.head(place)?;
            head.is(id).then_some((place, head))
        })
    }

    pub(super) fn hash_at(&self, place: u32) -> u64 {
        self.places.head(place).map_or(0, Head::hash)
    }

    #[inline]
    fn short_body(&self, place: u32, length: usize) -> Option<Outcome> {
        Some(Outcome::success(Payload::short(self.places.room(place)?.read(), length)))
    }
}

impl Shard {
    pub(super) fn new(most_entries: usize, most_bytes: usize, share: usize, share_bytes: usize) -> Self {
        let books = Books::new(most_entries, most_bytes, share, share_bytes);
        let table = Table { index: Index::default(), places: Places::new(books.most_entries()) };
        Self { version: AtomicU64::new(0), table, books: Mutex::new(books) }
    }

    pub(super) fn len(&self) -> usize {
        self.books.lock().len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.books.lock().bytes()
    }

    #[inline]
    pub(super) fn look_up(
        &self,
        id: &Id,
        print: Option<&Fingerprint>,
        now: impl Fn() -> Stamp,
        here: impl Fn() -> u64,
    ) -> Option<Replay> {
        let version = self.version.load(Acquire);
        let Some((place, head)) = self.table.find(id) else {
            return if self.is_still(version) { None } else { self.look_closely(id, print, now, here) };
        };
        let answer = head.read();
        // In one breath what nearly all look-ups are; all else can wait for the lock.
        if let Where::Beside(length) = answer.body()
            && let Some(room) = self.table.places.room(place)
            && answer.is_for(print)
            && !answer.expired(now(), &here)
        {
            let body = room.read();
            if self.is_still(version) {
                head.note_given();
                return Some(answer.replay(Outcome::success(Payload::short(body, length)), None));
            }
        }
        self.look_closely(id, print, now, here)
    }

    /// Only where to look closer: nobody is answered by it, so it may be read while it is changed.
    pub(super) fn schemes(&self, id: &Id) -> Option<[Scheme; 2]> {
        self.table.find(id).map(|(_, head)| head.read().schemes())
    }

    /// Nothing was changed since this was the version, nor was anything being changed then: what was read is whole.
    #[inline]
    fn is_still(&self, version: u64) -> bool {
        fence(Acquire);
        version.is_multiple_of(2) && self.version.load(Relaxed) == version
    }

    /// With nobody changing it meanwhile.
    #[cold]
    #[inline(never)]
    fn look_closely(
        &self,
        id: &Id,
        print: Option<&Fingerprint>,
        now: impl Fn() -> Stamp,
        here: impl Fn() -> u64,
    ) -> Option<Replay> {
        let mut books = self.books.lock();
        if self.is_torn() {
            return None;
        }
        let (place, head) = self.table.find(id)?;
        let answer = head.read();
        if answer.expired(now(), here) {
            self.change(&mut books, |books| books.remove(&self.table, place));
            return None;
        }
        if !answer.is_for(print) {
            return None;
        }
        let held = match answer.body() {
            Where::Beside(length) => {
                let outcome = self.table.short_body(place, length)?;
                head.note_given();
                return Some(answer.replay(outcome, None));
            }
            Where::Elsewhere(number) => books.held(number)?.clone(),
        };
        head.note_given();
        // What it says is read while others go on.
        drop(books);
        let (outcome, asked_first) = held.opened()?;
        Some(answer.replay(outcome, asked_first))
    }

    /// With the books in hand: a change has panicked, and nobody knows how far it came.
    fn is_torn(&self) -> bool {
        self.version.load(Relaxed) % 2 == 1
    }

    /// A change that panics leaves the version odd: nobody reads half of it, and the next one begins by forgetting all.
    fn change<T>(&self, books: &mut Books, change: impl FnOnce(&mut Books) -> T) -> T {
        let torn = self.is_torn();
        let odd = self.version.load(Relaxed) | 1;
        self.version.store(odd, Relaxed);
        fence(Release);
        if torn {
            self.table.index.clear();
            drop(books.clear(&self.table));
        }
        let done = change(books);
        self.version.store(odd.wrapping_add(1), Release);
        done
    }

    /// `still` is asked under the lock: whether it may be kept after all.
    pub(super) fn insert(
        &self,
        id: &Id,
        tenant: Tag,
        (answer, kept): (Answer, Kept<'_>),
        still: impl FnOnce() -> bool,
    ) {
        let mut books = self.books.lock();
        if still() {
            self.change(&mut books, |books| books.insert(&self.table, id, tenant, answer, kept));
        }
    }

    pub(super) fn forget(&self, id: &Id) {
        let mut books = self.books.lock();
        if self.is_torn() {
            self.change(&mut books, |_| ());
        } else if let Some((place, _)) = self.table.find(id) {
            self.change(&mut books, |books| books.remove(&self.table, place));
        }
    }

    pub(super) fn clear(&self) {
        let mut books = self.books.lock();
        let old = self.change(&mut books, |books| {
            self.table.index.clear();
            books.clear(&self.table)
        });
        drop(books);
        drop(old);
    }

    pub(super) fn given(&self, id: &Id) -> u16 {
        let _books = self.books.lock();
        self.table.find(id).map_or(0, |(_, head)| head.given())
    }
}
