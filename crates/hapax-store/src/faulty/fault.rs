use hapax_core::Millis;

/// What goes wrong with one call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// A write: refused before anything happened, and said so.
    Before,
    /// A write: applied, and the answer was lost.
    After,
    /// A write: the answer is *unknown* at once, and the write is applied later.
    Late(Landing),
    /// A read without an answer.
    LostRead,
    /// Any call: answered properly, but not soon.
    Slow(Millis),
    /// Any call: this one and the following ones fail, so many in all; then the connection is as good as new.
    Stale(u32),
    /// A watch that never wakes. This **breaks the contract**, and is here only for callers that say of themselves
    /// that they read again after a while whatever happens.
    LostWatch,
}

/// When a late write is applied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Landing {
    /// When [`crate::FaultyStore::release_late`] says so.
    Released,
    /// Before some later call, drawn at random.
    SomeCall,
    /// After this time.
    After(Millis),
}

/// Which faults a call can meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Read,
    Write,
    Watch,
}

impl Fault {
    pub(super) const fn fits(self, call: Call) -> bool {
        match self {
            Self::Before | Self::After | Self::Late(_) => matches!(call, Call::Write),
            Self::LostRead => matches!(call, Call::Read | Call::Watch),
            Self::LostWatch => matches!(call, Call::Watch),
            Self::Slow(_) | Self::Stale(_) => true,
        }
    }
}

/// How often each fault struck.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Injected {
    pub before: u64,
    pub after: u64,
    pub late: u64,
    /// Late writes that were applied in the end.
    pub late_landed: u64,
    /// Late writes that came to nothing since the version had moved.
    pub late_conflicted: u64,
    pub lost_reads: u64,
    pub slow: u64,
    /// Calls that failed on a stale connection.
    pub stale: u64,
    pub lost_watches: u64,
}
