use bytes::Bytes;
use hapax_core::{Millis, Stamp, Tag};

/// What sort of record a payload is. Stores carry the number and never look behind it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Kind(pub u8);

impl Kind {
    pub const OPERATION: Self = Self(1);
    // Reserved, so that no number is ever given a second meaning.
    pub const GROUP: Self = Self(2);
    pub const TASK: Self = Self(3);
    pub const BEAT: Self = Self(4);
    pub const PLAN: Self = Self(5);
    pub const MEMO: Self = Self(6);
    pub const KEY_SLOT: Self = Self(7);
    /// Which process does a piece of housekeeping.
    pub const CLAIM: Self = Self(16);
    /// What all processes on the store have in common.
    pub const MARK: Self = Self(17);
}

/// A moment that a write asks the store to remember. A write does not know its own stamp, hence `After`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Due {
    /// So long after the stamp of this write.
    After(Millis),
    At(Stamp),
}

impl Due {
    #[must_use]
    pub const fn resolve(self, stamp: Stamp) -> Stamp {
        match self {
            Self::After(span) => stamp.plus(span),
            Self::At(at) => at,
        }
    }
}

/// What a record counts as where quotas are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counted {
    Record,
    Tombstone,
}

/// An entry in one of the indexes that only stores of level *full* keep.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Entry {
    pub list: List,
    /// Which group, or whose queue.
    pub tag: Tag,
    /// The place in that list; ties are broken by id.
    pub order: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum List {
    Group = 1,
    Queue = 2,
}

/// A record as a store sees it: opaque bytes, and beside them exactly what the store needs to index and expire them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    pub kind: Kind,
    /// The surface, for counting.
    pub surface: Tag,
    /// The tenant on that surface, for counting and for the order of age.
    pub tenant: Tag,
    pub counted: Counted,
    /// When somebody should look because a lease may have lapsed.
    pub lease_end: Option<Due>,
    /// When somebody should look because a window ends.
    pub expiry: Option<Due>,
    /// From when on the record reads as absent whatever the rules, so that a store may drop it by itself.
    pub gone: Option<Due>,
    pub in_doubt: bool,
    /// At most [`Envelope::MOST_ENTRIES`].
    pub entries: Vec<Entry>,
    /// How many bytes the bodies have that it names, for counting.
    pub beside: u64,
    pub payload: Bytes,
}

impl Envelope {
    pub const MOST_ENTRIES: usize = 8;
    /// What a store may need around the payload of one record, and may count.
    pub const MOST_AROUND: u64 = 512;

    /// What the record takes, wherever it lies: its payload, and the bodies beside it.
    #[must_use]
    pub const fn weight(&self) -> u64 {
        self.beside.saturating_add(self.payload.len() as u64)
    }
}
