//! The in-process fast path: final answers by id.
//!
//! It may only shorten a replay and never holds the truth about anything live: a hit is judged by the same rules as a
//! stored record, and whatever it cannot answer for certain goes to the ledger. Bounded by count, by bytes and by a
//! share per tenant; what was not asked for lately goes first.

mod books;
mod entry;
mod index;
mod kept;
mod places;
mod shard;
mod tenants;

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire},
};

use hapax_core::{Fingerprint, Id, Millis, Replay, Stamp, Tag, identity::Scheme};
use tokio::time::Instant;

use entry::Answer;
use shard::Shard;

/// How large the gate may grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GateSize {
    pub entries: usize,
    /// Of recorded answers, headers and bodies together.
    pub bytes: usize,
    /// One tenant may hold one part in so many.
    pub tenant_share: usize,
}

impl Default for GateSize {
    fn default() -> Self {
        Self { entries: 100_000, bytes: 64 * 1024 * 1024, tenant_share: 2 }
    }
}

/// How many shards; a power of two.
const SHARDS: usize = 16;

/// How many marks; a power of two.
const MARKS: usize = 1024;

#[derive(Debug)]
pub struct Gate {
    shards: Box<[Shard]>,
    /// Each moves when something is forgotten, so that whoever had read it before cannot bring it back.
    marks: Box<[AtomicU64]>,
    made: Instant,
}

/// What had been forgotten when a record was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(u64);

impl Gate {
    #[must_use]
    pub fn new(size: GateSize) -> Self {
        let part = |whole: usize| whole.div_ceil(SHARDS).max(1);
        let share = part(size.entries).div_ceil(size.tenant_share.max(1)).max(1);
        let share_bytes = part(size.bytes).div_ceil(size.tenant_share.max(1));
        let shard = || Shard::new(part(size.entries), part(size.bytes), share, share_bytes);
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            marks: (0..MARKS).map(|_| AtomicU64::default()).collect(),
            made: Instant::now(),
        }
    }

    /// This process's own time, which is never set back.
    fn here(&self) -> u64 {
        Millis::from_std(self.made.elapsed()).0
    }

    fn shard(&self, id: &Id) -> &Shard {
        &self.shards[usize::from(id.0[31]) % SHARDS]
    }

    fn mark_of(&self, id: &Id) -> &AtomicU64 {
        &self.marks[usize::from(u16::from_le_bytes([id.0[8], id.0[9]])) % MARKS]
    }

    /// To be taken before a record is asked for whose answer may be kept with [`Gate::insert_seen`].
    #[must_use]
    pub fn mark(&self, id: &Id) -> Mark {
        Mark(self.mark_of(id).load(Acquire))
    }

    /// The recorded answer, if this process knows it for certain: unexpired at `now`, and of this very request.
    #[must_use]
    pub fn look_up(&self, id: &Id, print: Option<&Fingerprint>, now: Stamp) -> Option<Replay> {
        self.look_up_at(id, print, || now)
    }

    /// As [`Gate::look_up`]; the time is asked only if there is something to judge by it.
    #[must_use]
    pub fn look_up_at(&self, id: &Id, print: Option<&Fingerprint>, now: impl Fn() -> Stamp) -> Option<Replay> {
        self.shard(id).look_up(id, print, now, || self.here())
    }

    /// How the print of the request was made whose answer is kept, if one is; 0 is none. What is told here may be old by the time it is told.
    #[must_use]
    pub fn schemes(&self, id: &Id) -> Option<[Scheme; 2]> {
        self.shard(id).schemes(id)
    }

    /// Remembers a final answer, at most for so long where it may change without this process knowing. That is counted
    /// by this process: the store's clock may be set back, and what it says then is no reason to believe longer.
    pub fn insert(&self, id: &Id, tenant: Tag, guard: Option<&Fingerprint>, replay: &Replay, most: Option<Millis>) {
        let until = most.map(|most| self.here().saturating_add(most.0));
        if let Some(answer) = Answer::of(guard, replay, until) {
            self.shard(id).insert(id, tenant, answer, || true);
        }
    }

    /// As [`Gate::insert`], unless something was forgotten since the mark was taken: then what was read may be old.
    pub fn insert_seen(
        &self,
        id: &Id,
        tenant: Tag,
        guard: Option<&Fingerprint>,
        replay: &Replay,
        most: Option<Millis>,
        mark: Mark,
    ) {
        let until = most.map(|most| self.here().saturating_add(most.0));
        if let Some(answer) = Answer::of(guard, replay, until) {
            self.shard(id).insert(id, tenant, answer, || self.mark(id) == mark);
        }
    }

    pub fn forget(&self, id: &Id) {
        // First the mark: an insert that has not seen it move holds the lock, and is forgotten right after.
        self.mark_of(id).fetch_add(1, AcqRel);
        self.shard(id).forget(id);
    }

    /// Forgets everything: after a reload, or when the feed that keeps it true was lost.
    pub fn clear(&self) {
        for mark in &self.marks {
            mark.fetch_add(1, AcqRel);
        }
        for shard in &self.shards {
            shard.clear();
        }
    }

    /// How often the answer of this operation was given from here since it was kept, up to 65,535.
    #[must_use]
    pub fn given(&self, id: &Id) -> u16 {
        self.shard(id).given(id)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the recorded answers take, without the entries around them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(Shard::bytes).sum()
    }
}
