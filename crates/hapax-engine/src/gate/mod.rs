//! The in-process fast path: final answers by id.
//!
//! It may only shorten a replay and never holds the truth about anything live: a hit is judged by the same rules as a
//! stored record, and whatever it cannot answer for certain goes to the ledger. Bounded by count, by bytes and by a
//! share per tenant; what was not asked for lately goes first.

mod entry;
mod shard;

use hapax_core::{Fingerprint, Id, Replay, Stamp, Tag};
use parking_lot::Mutex;

use shard::Shard;

pub use entry::Answer;

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

#[derive(Debug)]
pub struct Gate {
    shards: Box<[Mutex<Shard>]>,
}

impl Gate {
    #[must_use]
    pub fn new(size: GateSize) -> Self {
        let part = |whole: usize| whole.div_ceil(SHARDS).max(1);
        let share = part(size.entries).div_ceil(size.tenant_share.max(1)).max(1);
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::new(part(size.entries), part(size.bytes), share)));
        Self { shards: shards.collect() }
    }

    fn shard(&self, id: &Id) -> &Mutex<Shard> {
        &self.shards[usize::from(id.0[31]) % SHARDS]
    }

    /// The recorded answer, if this process knows it for certain: unexpired at `now`, and of this very request.
    #[must_use]
    pub fn look_up(&self, id: &Id, print: Option<&Fingerprint>, now: Stamp) -> Option<Replay> {
        self.shard(id).lock().look_up(id, print, now)
    }

    /// Remembers a final answer, at most `until` where it may change without this process knowing.
    pub fn insert(&self, id: &Id, tenant: Tag, guard: Option<&Fingerprint>, replay: &Replay, until: Option<Stamp>) {
        if let Some(answer) = Answer::of(guard, replay, until) {
            self.shard(id).lock().insert(id, tenant, answer);
        }
    }

    pub fn forget(&self, id: &Id) {
        self.shard(id).lock().forget(id);
    }

    /// Forgets everything: after a reload, or when the feed that keeps it true was lost.
    pub fn clear(&self) {
        for shard in &self.shards {
            shard.lock().clear();
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the recorded answers take, without the entries around them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes()).sum()
    }
}
