//! The store contract: a versioned map with compare-and-set.
//!
//! The rules never live in a store. A caller reads a record, the pure core decides, the store swaps.

use std::{fmt, future::Future, pin::Pin};

use bytes::Bytes;
use hapax_core::{BodyId, Id, Millis, Stamp, Tag, Version};

use crate::{Counted, Envelope, StoreError};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// One record as it stood when the store answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// `None`: absent. Absence has a version too: [`Version::NEVER`], or the version of the removal.
    pub record: Option<Envelope>,
    pub version: Version,
    /// The stamp of the write that made this version; the start of time for an id never written.
    pub stamp: Stamp,
    /// The store's time at this answer, never before `stamp`.
    pub now: Stamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Swap {
    Swapped { version: Version, stamp: Stamp },
    Conflict(Snapshot),
}

/// Which ids a scan walks over. It may return more than what matches, never less: the record itself decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    /// Leases that end at or before this moment, earliest first.
    LeaseEnd {
        until: Stamp,
    },
    /// Windows that end at or before this moment, earliest first.
    Expiry {
        until: Stamp,
    },
    InDoubt,
    /// All records of one tenant on one surface, the least recently written first.
    TenantAge(Tag),
    /// Level *full* only.
    Group(Tag),
    /// Level *full* only.
    Queue(Tag),
}

/// A place in a scan or a feed. Only the store that gave it out can read it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cursor(pub Bytes);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    pub id: Id,
    pub snapshot: Snapshot,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Changes {
    /// The latest state of each record that changed, at least once. `next` resumes behind them, and stays valid
    /// over restarts. No items: this is the end for now.
    Page { items: Vec<Change>, next: Cursor },
    /// The cursor lies before what is still known: start again from `oldest`, after taking a snapshot.
    Gap { oldest: Cursor },
}

/// A stored body as the orphan sweep sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyInfo {
    pub body: BodyId,
    /// The record that is to name it.
    pub owner: Id,
    pub stored: Stamp,
    pub length: u64,
}

/// What one tag holds right now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub records: u64,
    pub tombstones: u64,
    /// What the records take, tombstones left out: of each its [`Envelope::weight`], and at most
    /// [`Envelope::MOST_AROUND`] more.
    pub bytes: u64,
    /// False on stores that estimate.
    pub exact: bool,
}

impl Usage {
    /// Whether this is how these records are to be counted, if they are all that the tag holds.
    #[must_use]
    pub fn counts<'a>(&self, held: impl IntoIterator<Item = &'a Envelope>) -> bool {
        let (mut records, mut tombstones, mut weight) = (0u64, 0, 0u64);
        for record in held {
            match record.counted {
                Counted::Record => (records, weight) = (records + 1, weight.saturating_add(record.weight())),
                Counted::Tombstone => tombstones += 1,
            }
        }
        let most = weight.saturating_add(records.saturating_mul(Envelope::MOST_AROUND));
        (self.records, self.tombstones) == (records, tombstones) && (weight..=most).contains(&self.bytes)
    }
}

/// What a store, as configured right now, really promises about an acknowledged write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Durability {
    Durable,
    DurableIf(String),
    BestEffort(String),
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Durable => f.write_str("durable"),
            Self::DurableIf(reason) => write!(f, "durable if {reason}"),
            Self::BestEffort(reason) => write!(f, "best effort ({reason})"),
        }
    }
}

/// How much of the contract a store offers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Operations, joining, activities, memos, the bus guard.
    Basic,
    /// Groups, the queue and a run's effects as well.
    Full,
}

/// Wakes whoever waits for a record to change. It may wake for nothing; it may not sleep through a change.
pub trait Watch: Send {
    /// Resolves after the record may have changed, counted from when the watch was set up or last woke.
    /// Dropping the future loses no wake-up.
    fn changed(&mut self) -> BoxFuture<'_, ()>;
}

/// One store. See the module for the idea and `conformance` for the suite that decides whether an implementation is one.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot>;

    /// Replaces the record (`None` removes it) if its version still is `expected`. Durable before it answers, as far
    /// as [`Store::durability`] says; a conflict, too, is only reported once what it shows is durable.
    ///
    /// A removal, also of what is already absent, is a write: it gets a version of its own, which is remembered for
    /// at least as long as another write can be late. After that the id may read as [`Version::NEVER`] again.
    ///
    /// Whoever drops the future before it has answered knows as much as after [`StoreError::Unknown`].
    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap>;

    /// As [`Store::swap`], by a store that waits for nobody: answered at once, without a future. `None`: nothing was done and
    /// nothing taken, it is to be asked by `swap`.
    fn swap_now(&self, _id: &Id, _expected: Version, _next: &mut Option<Envelope>) -> Option<Result<Swap, StoreError>> {
        None
    }

    /// Set up once this answers: every later change wakes it.
    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>>;

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>>;

    /// Without a cursor: all that is there, then what changes.
    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes>;

    /// Durable before it answers, so that a record never names a body that is not there. Repeating it is harmless.
    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()>;
    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>>;
    fn drop_body(&self, body: BodyId) -> Answer<'_, ()>;
    /// Every stored body, in an order of the store's own, for the sweep of orphans.
    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>>;

    /// How many records a surface or a tenant holds, and what they take.
    fn usage(&self, tag: Tag) -> Answer<'_, Usage>;

    /// The store's time without a round trip, where the store lives in this process.
    fn now(&self) -> Option<Stamp> {
        None
    }

    /// How far the times in its answers may be off, where it has to estimate them. The engine lets no lease be shorter than
    /// ten times this.
    fn clock_error(&self) -> Millis {
        Millis::ZERO
    }

    /// What it promises, as far as it knows; without asking anybody.
    fn durability(&self) -> Durability;

    /// Asks anew what it promises, where that can change while it is open: a server has settings that others change, and
    /// replicas that come and go. [`Store::durability`] says the same from then on.
    fn ask_durability(&self) -> Answer<'_, Durability> {
        let known = self.durability();
        Box::pin(async move { Ok(known) })
    }

    fn level(&self) -> Level;
    /// What to call it in messages: `memory`, `file:./hapax-data`. Never with a secret.
    fn name(&self) -> String;
    /// Whether this process alone writes to the store, so that what it has cached cannot be overtaken.
    fn single_writer(&self) -> bool;
}
