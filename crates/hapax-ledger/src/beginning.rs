//! Who reads the feed without a cursor is first told of all that is there, wherever in the log it lies by now.
//!
//! Cleaning carries records on and drops the segments in which they were changes. So the log is read by place here and not
//! by version: each record is told where the index says that it lies. What is moved meanwhile is moved to the end, which is
//! still to come. Then the feed is read as by everybody else, from the version on at which all this began: what was written,
//! written again or removed meanwhile is told there.

use bytes::Bytes;
use hapax_core::Version;
use hapax_store::{Change, Cursor, StoreError};

use crate::{
    feed,
    frame::{Frame, u32_at, u64_at},
    shared::Shared,
    slot,
};

const BYTES: usize = 32;

/// How far somebody has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    /// The last version when it began.
    pub(crate) since: Version,
    segment: u32,
    /// The frame.
    offset: u64,
    /// How many of its entries.
    passed: u64,
}

impl Spot {
    pub(crate) const fn beginning(since: Version) -> Self {
        Self { since, segment: 0, offset: 0, passed: 0 }
    }

    pub(crate) fn cursor(self, shared: &Shared) -> Cursor {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&feed::name(shared).to_le_bytes());
        bytes.extend_from_slice(&self.since.0.to_le_bytes());
        bytes.extend_from_slice(&self.segment.to_le_bytes());
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.extend_from_slice(&self.passed.to_le_bytes());
        Cursor(Bytes::from(bytes))
    }

    /// The outer `None`: it is a cursor of another kind. The inner: one of another store's.
    pub(crate) fn parse(cursor: &Cursor, shared: &Shared) -> Option<Option<Self>> {
        let bytes = cursor.0.as_ref();
        if bytes.len() != BYTES {
            return None;
        }
        let (since, segment) = (Version(u64_at(bytes, 4)?), u32_at(bytes, 12)?);
        let spot = Self { since, segment, offset: u64_at(bytes, 16)?, passed: u64_at(bytes, 24)? };
        Some((u32_at(bytes, 0)? == feed::name(shared)).then_some(spot))
    }
}

/// What was found, and where to go on.
pub(crate) struct Found {
    pub(crate) items: Vec<Change>,
    /// `None`: that was all.
    pub(crate) next: Option<Spot>,
}

/// `None`: a segment went while it was read.
///
/// A record that lies where somebody comes by is told. One that is carried on meanwhile lies further on, and the reader comes by
/// there; its slot names the new place before the old one goes.
pub(crate) fn read(shared: &Shared, from: Spot, limit: usize) -> Result<Option<Found>, StoreError> {
    let mut spot = from;
    let mut items = Vec::new();
    let mut made_up = false;
    while let Some(segment) = shared.log.first_from(spot.segment) {
        if segment.number != spot.segment {
            spot = Spot { segment: segment.number, ..Spot::beginning(from.since) };
        }
        loop {
            let bytes = match segment.read_frame(spot.offset) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                // A place that a cursor made up; or damage, which is met again at the same place.
                Err(_) if spot == from && spot.offset != 0 && !made_up => {
                    made_up = true;
                    (spot.offset, spot.passed) = (0, 0);
                    continue;
                }
                Err(error) if shared.log.segment(segment.number).is_some() => {
                    let at = slot::Place { segment: segment.number, offset: spot.offset, length: 0 };
                    return Err(shared.corrupt(at, &error.to_string()));
                }
                Err(_) => return Ok(None),
            };
            let Some(frame) = Frame::open(&bytes, segment.seed, spot.offset) else { break };
            let passed = usize::try_from(spot.passed).unwrap_or(usize::MAX);
            for (offset, entry_bytes, entry) in frame.entries().skip(passed) {
                if items.len() == limit {
                    return Ok(Some(Found { items, next: Some(spot) }));
                }
                spot.passed += 1;
                // What was written since is a change, and comes after all this.
                let Some(entry) = entry.filter(|entry| entry.version <= from.since) else { continue };
                let here = slot::Place { segment: segment.number, offset, length: entry_bytes.len() as u32 };
                let slot = shared.index.slot(shared.index.key(&entry.id));
                if slot.is_some_and(|slot| slot.version() == entry.version && slot.place() == here) {
                    items.push(feed::change(shared, entry, entry_bytes, slot));
                }
            }
            (spot.offset, spot.passed) = (frame.end(), 0);
        }
        spot = Spot { segment: segment.number + 1, ..Spot::beginning(from.since) };
    }
    Ok(Some(Found { items, next: None }))
}
