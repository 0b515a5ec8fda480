//! The writer: takes what has queued, writes it as one frame, syncs once, and only then lets anybody know.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use foldhash::fast::RandomState;
use hapax_core::{Stamp, Version};
use hapax_store::StoreError;
use hashbrown::HashMap;

use crate::{
    append::{Appender, Failed, Start},
    clock::KEPT_WITHIN,
    entry::{self, REMOVAL_BYTES},
    index::{PASSED_ON, Spent, Update},
    letterbox::{Caller, Post},
    log::is_full,
    pace::{Company, Pace},
    scarcity::Scarcity,
    shared::{Carried, Load, Reply, Request, Shared, Slice, SwapRequest},
    slot::{GONE, Key, MOST_VERSION, Place, REMOVED},
    sudden_end::SuddenEnd,
};

/// After so long without work, a mark is written behind the last frame.
const IDLE: Duration = Duration::from_millis(50);
const ASLEEP: Duration = Duration::from_secs(1);
/// How many changes are shown before others get a chance to look at the books. A large batch is so shown in parts, and callers without a
/// letterbox are told in parts too: the first are at their next step while the last are still being shown.
const SHOWN_AT_ONCE: usize = 16;

#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    appender: Appender,
    incoming: Vec<Request>,
    waiting: VecDeque<SwapRequest>,
    errands: VecDeque<Request>,
    /// The versions that this batch gives, before anybody can see them.
    overlay: HashMap<Key, Version, RandomState>,
    written: Vec<Written>,
    shown: Vec<Shown>,
    conflicts: Vec<Caller>,
    post: Post,
    moved: Vec<Moved>,
    slices: Vec<Slice>,
    unmarked: bool,
    pace: Pace,
    /// Only where the writer has a thread of its own.
    scarcity: Option<Scarcity>,
}

#[derive(Debug)]
struct Written {
    update: Update,
    caller: Caller,
}

/// Seen by everybody; its caller is to be told.
#[derive(Debug)]
struct Shown {
    caller: Caller,
    key: Key,
    version: Version,
    spent: Spent,
}

#[derive(Debug)]
struct Moved {
    key: Key,
    version: Version,
    from: Place,
    to: Place,
    marker: bool,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, appender: Appender) -> Self {
        Self {
            shared,
            appender,
            incoming: Vec::new(),
            waiting: VecDeque::new(),
            errands: VecDeque::new(),
            overlay: HashMap::default(),
            written: Vec::new(),
            shown: Vec::with_capacity(SHOWN_AT_ONCE),
            conflicts: Vec::new(),
            post: Post::default(),
            moved: Vec::new(),
            slices: Vec::new(),
            unmarked: false,
            pace: Pace::new(),
            scarcity: None,
        }
    }

    pub(crate) fn run(mut self, mut rolled: impl FnMut()) {
        let shared = self.shared.clone();
        let sudden_end = SuddenEnd::of("writer", shared.clone(), &shared.queue);
        let mut segment = self.appender.active().number;
        self.scarcity = Some(Scarcity::here());
        loop {
            let wait = if self.unmarked { IDLE } else { ASLEEP };
            let going_on = self.turn(Some(wait));
            if self.appender.active().number != segment {
                segment = self.appender.active().number;
                rolled();
            }
            if !going_on {
                break;
            }
        }
        self.end();
        sudden_end.expected();
    }

    /// One batch. False: the ledger was closed and nothing is left to do.
    pub(crate) fn turn(&mut self, wait: Option<Duration>) -> bool {
        let mut open = true;
        if self.waiting.is_empty() {
            // The ledger's own errands wait for nobody.
            let at_rest = self.errands.is_empty();
            let (wait, company) = if at_rest { (wait, self.pace.company()) } else { (None, Company::Nobody) };
            open = self.shared.queue.take_with(&mut self.incoming, wait, company);
            if at_rest && let Some(scarcity) = &mut self.scarcity {
                let (scarce, now) = scarcity.look();
                self.pace.came(self.incoming.len(), scarce, now);
            }
            for request in self.incoming.drain(..) {
                match request {
                    Request::Swap(swap) => self.waiting.push_back(swap),
                    Request::Carry(_) | Request::Mark => self.errands.push_back(request),
                }
            }
        }
        if !self.waiting.is_empty() || !self.errands.is_empty() {
            self.batch();
        } else if wait.is_some() && open {
            self.mark();
        }
        let now = self.shared.time.now();
        self.shared.index.pass_on(&mut self.shared.index.books(), now, self.shared.memory, PASSED_ON);
        open || !self.waiting.is_empty() || !self.errands.is_empty()
    }

    /// Says that what came before was whole, unless that was the last thing said. Also keeps the time that was told: a
    /// ledger that is only read has no other stamps.
    pub(crate) fn mark(&mut self) {
        let durable = Stamp(self.appender.last_stamp);
        let is_late = self.shared.time.now().since(durable) >= KEPT_WITHIN;
        self.mark_if(self.unmarked || (is_late && self.shared.time.told_after(durable)));
    }

    /// The last thing before a clean end: whatever was told is kept.
    pub(crate) fn end(&mut self) {
        self.mark_if(self.unmarked || self.shared.time.told_after(Stamp(self.appender.last_stamp)));
    }

    fn mark_if(&mut self, wanted: bool) {
        if wanted && self.shared.poison.why().is_none() {
            self.errands.push_back(Request::Mark);
            self.batch();
        }
    }

    fn batch(&mut self) {
        if self.refuses() {
            return;
        }
        let stamp = Stamp(self.shared.time.now().0.max(self.appender.last_stamp));
        let mut started = false;
        let mut mark = false;
        // Requests go before the ledger's own errands, so that cleaning costs nobody more than a part of a frame.
        while let Some(swap) = self.waiting.pop_front() {
            if let Some(swap) = self.take_swap(swap, stamp, &mut started) {
                self.waiting.push_front(swap);
                break;
            }
        }
        // Where no segment could be started, nobody of this batch is told anything else.
        if !started && self.refuses() {
            return;
        }
        for _ in 0..self.errands.len() {
            match self.errands.pop_front() {
                Some(Request::Carry(slice)) => {
                    let later = self.take_slice(slice, &mut started);
                    self.errands.extend(later.map(Request::Carry));
                }
                Some(Request::Swap(swap)) => self.waiting.push_back(swap),
                Some(Request::Mark) => mark = true,
                None => {}
            }
        }
        if !started && self.refuses() {
            return;
        }
        let anything = started && !self.appender.is_empty();
        let outcome = if anything {
            self.appender.commit(stamp.0).map(|()| true)
        } else if mark {
            match self.appender.start(0) {
                Ok(Start::Ready) => self.appender.commit(stamp.0).map(|()| true),
                Ok(Start::NoRoom) => Ok(false),
                Err(error) => Err(Failed::Write(error)),
            }
        } else {
            Ok(false)
        };
        match outcome {
            Ok(is_written) => {
                self.shared.counters.frames.fetch_add(u64::from(is_written), Ordering::Relaxed);
                // A mark for which there is no room is not tried again and again: the next frame makes up for it.
                if anything || mark {
                    self.unmarked = anything;
                }
                self.show(stamp);
            }
            Err(failed) => self.fail(failed),
        }
        self.overlay.clear();
    }

    /// After an I/O error: whoever waits is told so.
    fn refuses(&mut self) -> bool {
        let Some(why) = self.shared.poison.why() else { return false };
        let error = self.shared.unavailable(why);
        self.errands.clear();
        self.slices.clear();
        let waiting = self.waiting.drain(..).map(|swap| swap.caller);
        for caller in waiting.chain(self.conflicts.drain(..)) {
            caller.tell(Reply::Failed(error.clone()));
        }
        true
    }

    /// Gives back what does not fit into this frame.
    fn take_swap(&mut self, swap: SwapRequest, stamp: Stamp, started: &mut bool) -> Option<SwapRequest> {
        let (current, at_work) = match self.overlay.get(&swap.key) {
            Some(version) => (*version, true),
            None => self.shared.index.version(swap.key),
        };
        if current != swap.expected {
            self.conflicts.push(swap.caller);
            return None;
        }
        let size = swap.next.as_ref().map_or(REMOVAL_BYTES, |record| entry::size_of(&record.envelope));
        if !*started {
            match self.appender.start(size) {
                Ok(Start::Ready) => *started = true,
                Ok(Start::NoRoom) => {
                    swap.caller.tell(Reply::Failed(self.full()));
                    return None;
                }
                Err(error) => {
                    self.shared.poison(format!("cannot start a segment: {error}"));
                    return Some(swap);
                }
            }
        }
        if !self.appender.fits(size) {
            return Some(swap);
        }
        // What is left when the disk is full belongs to those who are at work already. Where only bodies do not fit, it is new work that
        // waits: what ends, expires or is let go makes the room.
        let is_tight = || self.shared.log.is_tight() && self.appender.left() < self.appender.active().size / 2;
        let waits = match &swap.next {
            Some(next) => is_tight() || (self.shared.bodies.is_tight() && next.envelope.lease_end.is_some()),
            None => false,
        };
        if !at_work && waits {
            swap.caller.tell(Reply::Failed(self.full()));
            return None;
        }
        let version = Version(self.appender.version());
        if version.0 > MOST_VERSION {
            swap.caller.tell(Reply::Failed(self.shared.unavailable("it has run out of versions")));
            return None;
        }
        let SwapRequest { key, id, next, caller, .. } = swap;
        let update = match next {
            Some(mut record) => {
                let written = Arc::make_mut(&mut record);
                (written.version, written.stamp) = (version, stamp);
                let put = |buffer: &mut Vec<u8>| entry::put_record(buffer, &id, version, stamp, &record.envelope);
                let place = self.appender.add(true, put);
                Update::record(key, place, record)
            }
            None => {
                let place =
                    self.appender.add(true, |buffer| entry::put_removal(buffer, &id, version, stamp, stamp, false));
                Update::removal(key, version, stamp, place)
            }
        };
        self.overlay.insert(key, version);
        self.written.push(Written { update, caller });
        None
    }

    /// Gives back what does not fit into this frame.
    fn take_slice(&mut self, slice: Slice, started: &mut bool) -> Option<Slice> {
        let size = |item: &Carried| match &item.what {
            Load::Whole(bytes) => bytes.len(),
            Load::Marker(_) => REMOVAL_BYTES,
        };
        let whole: usize = slice.items.iter().map(size).sum();
        if !*started {
            match self.appender.start(whole) {
                Ok(Start::Ready) => *started = true,
                // No room to clean in: the oldest segments go when they are empty.
                Ok(Start::NoRoom) => return None,
                Err(error) => {
                    self.shared.poison(format!("cannot start a segment: {error}"));
                    return None;
                }
            }
        }
        if !self.appender.fits(whole) {
            return Some(slice);
        }
        for item in &slice.items {
            let current = self.shared.index.slot(item.key);
            let still = current.is_some_and(|slot| slot.version() == item.version && slot.place() == item.from);
            if !still || self.overlay.contains_key(&item.key) {
                continue;
            }
            let (to, marker) = match &item.what {
                Load::Whole(bytes) => (self.appender.add(false, |buffer| entry::put_carried(buffer, bytes)), false),
                Load::Marker(since) => {
                    // Only what is no longer there may be cut down to its version.
                    if !current.is_some_and(|slot| slot.has(GONE) || slot.has(REMOVED)) {
                        continue;
                    }
                    let put = |buffer: &mut Vec<u8>| {
                        entry::put_removal(buffer, &item.id, item.version, item.stamp, *since, true);
                    };
                    (self.appender.add(false, put), true)
                }
            };
            self.moved.push(Moved { key: item.key, version: item.version, from: item.from, to, marker });
        }
        self.slices.push(slice);
        None
    }

    /// Everything in the frame is durable: now it may be seen.
    fn show(&mut self, stamp: Stamp) {
        let shared = &self.shared;
        shared.counters.writes.fetch_add(self.written.len() as u64, Ordering::Relaxed);
        shared.counters.carried.fetch_add(self.moved.len() as u64, Ordering::Relaxed);
        let mut written = self.written.drain(..);
        while written.len() > 0 {
            let mut journal = self.appender.active().journal.lock();
            let mut books = shared.index.books();
            for Written { update, caller } in written.by_ref().take(SHOWN_AT_ONCE) {
                let (key, version) = (update.entrant.slot.key(), update.entrant.slot.version());
                if let Some(journal) = journal.as_mut() {
                    journal.add(update.entrant);
                }
                let spent = shared.index.apply(&mut books, update, shared.memory);
                self.shown.push(Shown { caller, key, version, spent });
            }
            drop(books);
            drop(journal);
            // A frame gives its versions in this order, so what is shown of it is all up to the last.
            if let Some(last) = self.shown.last() {
                shared.visible.store(last.version.0, Ordering::Release);
            }
            for Shown { caller, key, version, spent } in self.shown.drain(..) {
                shared.watchers.wake(key);
                self.post.add(caller, Reply::Swapped { version, stamp, spent });
            }
        }
        drop(written);
        for caller in self.conflicts.drain(..) {
            self.post.add(caller, Reply::Conflict);
        }
        self.post.send();
        if !self.moved.is_empty() {
            let mut journal = self.appender.active().journal.lock();
            let mut books = shared.index.books();
            for moved in self.moved.drain(..) {
                let Moved { key, version, from, to, marker } = moved;
                let now = shared.index.moved(&mut books, key, version, from, to, marker);
                if let (Some(journal), Some(entrant)) = (journal.as_mut(), now) {
                    journal.add(entrant);
                }
            }
        }
        for slice in self.slices.drain(..) {
            let _ = slice.done.try_send(());
        }
    }

    fn fail(&mut self, failed: Failed) {
        self.moved.clear();
        self.slices.clear();
        if let Failed::Write(error) = &failed
            && is_full(error)
        {
            // Half a frame that was never synced is no frame. The next one takes its place.
            let full = self.full();
            for written in self.written.drain(..) {
                written.caller.tell(Reply::Failed(full.clone()));
            }
            // They may have lost against one of those.
            for caller in self.conflicts.drain(..) {
                caller.tell(Reply::Failed(full.clone()));
            }
            return;
        }
        let why = match &failed {
            Failed::Write(error) => format!("a write failed: {error}"),
            Failed::Sync(error) => format!("a sync failed: {error}"),
        };
        self.shared.poison(why.clone());
        for written in self.written.drain(..) {
            let error = StoreError::Unknown { store: self.shared.name.clone(), reason: why.clone() };
            written.caller.tell(Reply::Failed(error));
        }
        for caller in self.conflicts.drain(..) {
            caller.tell(Reply::Failed(self.shared.unavailable(why.clone())));
        }
    }

    fn full(&self) -> StoreError {
        StoreError::Full {
            store: self.shared.name.clone(),
            reason: "the disk has no room for another segment or body; attempts under way may still end [HX0026]"
                .into(),
        }
    }
}
