use std::fmt;

/// The store's number for one write of one record. Versions of one id grow and never repeat, removals included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Version(pub u64);

impl Version {
    /// The version of an id that was never written.
    pub const NEVER: Self = Self(0);
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The store's version of a reservation, for downstreams that fence. It grows with each attempt of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fence {
    /// The version of the write that stores this record.
    Write,
    At(Version),
}

impl Fence {
    #[must_use]
    pub const fn resolve(self, version: Version) -> Version {
        match self {
            Self::Write => version,
            Self::At(at) => at,
        }
    }
}
