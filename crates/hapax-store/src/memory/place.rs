//! Places in the indexes, and the cursors that name them.

use bytes::Bytes;
use hapax_core::{Id, Stamp, Version};

use crate::{Cursor, StoreError};

/// Where a record stands in an index of moments. The version is that of the write which put it there: it tells equal
/// moments apart, and a later write that leaves the moment alone leaves the place alone as well.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Due {
    pub(super) at: Stamp,
    pub(super) since: Version,
}

/// A place in any index, in the order of that index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    /// A moment, a version or an order.
    pub(super) first: u64,
    pub(super) then: u64,
    pub(super) id: Id,
}

impl Place {
    const LENGTH: usize = 48;

    pub(super) const fn due(due: Due) -> Self {
        Self { first: due.at.0, then: due.since.0, id: Id([0; 32]) }
    }

    pub(super) const fn version(version: Version) -> Self {
        Self { first: version.0, then: 0, id: Id([0; 32]) }
    }

    pub(super) const fn order(order: u64, id: Id) -> Self {
        Self { first: order, then: 0, id }
    }

    pub(super) fn cursor(self) -> Cursor {
        let mut bytes = Vec::with_capacity(Self::LENGTH);
        bytes.extend_from_slice(&self.first.to_be_bytes());
        bytes.extend_from_slice(&self.then.to_be_bytes());
        bytes.extend_from_slice(&self.id.0);
        Cursor(Bytes::from(bytes))
    }

    pub(super) fn parse(cursor: &Cursor) -> Result<Self, StoreError> {
        let (first, rest) = number(&cursor.0)?;
        let (then, rest) = number(rest)?;
        let id = rest.try_into().map_err(|_| foreign())?;
        Ok(Self { first, then, id: Id(id) })
    }
}

/// A place in the change feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FeedPlace {
    /// Every change up to here was handed out, or overtaken by a later one.
    pub(super) through: Version,
    /// The highest version when this reader began with nothing: it cannot miss the removal of what it never saw.
    pub(super) began: Version,
}

impl FeedPlace {
    pub(super) fn cursor(self) -> Cursor {
        let mut bytes = Vec::with_capacity(16);
        bytes.extend_from_slice(&self.through.0.to_be_bytes());
        bytes.extend_from_slice(&self.began.0.to_be_bytes());
        Cursor(Bytes::from(bytes))
    }

    pub(super) fn parse(cursor: &Cursor) -> Result<Self, StoreError> {
        let (through, rest) = number(&cursor.0)?;
        let (began, rest) = number(rest)?;
        if rest.is_empty() { Ok(Self { through: Version(through), began: Version(began) }) } else { Err(foreign()) }
    }
}

fn number(bytes: &[u8]) -> Result<(u64, &[u8]), StoreError> {
    let (number, rest) = bytes.split_first_chunk::<8>().ok_or_else(foreign)?;
    Ok((u64::from_be_bytes(*number), rest))
}

pub(super) fn foreign() -> StoreError {
    StoreError::Unsupported { store: "memory".into(), reason: "this cursor is not one of its own".into() }
}
