//! The change feed: the log itself, read from a place on.
//!
//! Entries that were carried over are no changes, and of a record only the latest state is handed out. A reader that lies
//! behind the oldest segment has missed something, and is told so. Who begins is told of all that is there.

use bytes::Bytes;
use hapax_core::Version;
use hapax_store::{Change, Changes, Cursor, Snapshot, StoreError};

use crate::{
    beginning::{self, Found, Spot},
    entry::{Entry, What},
    frame::{Frame, u32_at, u64_at},
    segment::Segment,
    shared::{Shared, Stored},
    slot::{GONE, REMOVED, Slot},
};

/// A place in the feed. The version is what counts; where it lies only saves a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) through: Version,
    pub(crate) segment: u32,
    pub(crate) offset: u64,
}

impl Place {
    pub(crate) fn cursor(self, shared: &Shared) -> Cursor {
        let mut bytes = Vec::with_capacity(24);
        bytes.extend_from_slice(&name(shared).to_le_bytes());
        bytes.extend_from_slice(&self.through.0.to_le_bytes());
        bytes.extend_from_slice(&self.segment.to_le_bytes());
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        Cursor(Bytes::from(bytes))
    }

    /// The outer `None`: no cursor at all. The inner: one of another store's.
    fn parse(cursor: &Cursor, shared: &Shared) -> Option<Option<Self>> {
        let bytes = cursor.0.as_ref();
        if bytes.len() != 24 {
            return None;
        }
        let store = u32_at(bytes, 0)?;
        let place =
            Self { through: Version(u64_at(bytes, 4)?), segment: u32_at(bytes, 12)?, offset: u64_at(bytes, 16)? };
        Some((store == name(shared)).then_some(place))
    }
}

/// By which a cursor is known to be this store's.
pub(crate) fn name(shared: &Shared) -> u32 {
    crc32c::crc32c(&shared.log.store)
}

/// The version behind which all changes are still there.
fn oldest_known(shared: &Shared) -> Version {
    Version(shared.log.oldest().map_or(0, |oldest| oldest.first_version().saturating_sub(1)))
}

#[derive(Clone, Copy, Debug)]
enum From {
    Spot(Spot),
    Place(Place),
    /// A place of another store's.
    Elsewhere,
}

impl From {
    fn parse(cursor: &Cursor, shared: &Shared) -> Option<Self> {
        let spot = Spot::parse(cursor, shared).map(|spot| spot.map(Self::Spot));
        let parsed = spot.or_else(|| Place::parse(cursor, shared).map(|place| place.map(Self::Place)));
        Some(parsed?.unwrap_or(Self::Elsewhere))
    }
}

pub(crate) fn changes(shared: &Shared, after: Option<&Cursor>, limit: usize) -> Result<Changes, StoreError> {
    let limit = limit.max(1);
    let foreign = || shared.unsupported("this cursor is not one of its own");
    let after = after.map(|cursor| From::parse(cursor, shared).ok_or_else(foreign)).transpose()?;
    loop {
        shared.healthy()?;
        let start = Place { through: oldest_known(shared), segment: 0, offset: 0 };
        // Asked for after the oldest, so that who begins now is never behind it.
        let visible = shared.visible();
        let known = start.through..=visible;
        let (knows, page) = match after.unwrap_or(From::Spot(Spot::beginning(visible))) {
            From::Spot(spot) if known.contains(&spot.since) => (spot.since, begin(shared, spot, visible, limit)?),
            From::Place(place) if known.contains(&place.through) => {
                (place.through, read(shared, place, visible, limit)?)
            }
            From::Spot(_) | From::Place(_) | From::Elsewhere => {
                return Ok(Changes::Gap { oldest: start.cursor(shared) });
            }
        };
        // If a segment went while it was read, with changes that this reader does not know: look again what is there.
        if let Some(page) = page
            && oldest_known(shared) <= knows
        {
            return Ok(page);
        }
    }
}

/// A page that is not full is the end of what is there, so where the beginning has no more, changes follow at once.
fn begin(shared: &Shared, spot: Spot, visible: Version, limit: usize) -> Result<Option<Changes>, StoreError> {
    let Some(Found { mut items, next }) = beginning::read(shared, spot, limit)? else { return Ok(None) };
    let since = Place { through: spot.since, segment: 0, offset: 0 };
    let next = match next {
        Some(next) => next.cursor(shared),
        None if items.len() == limit => since.cursor(shared),
        None => match read(shared, since, visible, limit - items.len())? {
            Some(Changes::Page { items: changes, next }) => {
                items.extend(changes);
                next
            }
            gone @ (Some(Changes::Gap { .. }) | None) => return Ok(gone),
        },
    };
    Ok(Some(Changes::Page { items, next }))
}

fn read(shared: &Shared, from: Place, visible: Version, limit: usize) -> Result<Option<Changes>, StoreError> {
    let wanted = from.through.0 + 1;
    let segments = shared.log.all();
    let holds = |segment: &Segment| (1..=wanted).contains(&segment.first_version());
    let first = segments.iter().rposition(|segment| holds(segment)).unwrap_or(0);
    let mut place = from;
    let mut items = Vec::new();
    let mut made_up = false;
    for segment in &segments[first.min(segments.len())..] {
        let mut offset = if segment.number == from.segment { from.offset.min(segment.end()) } else { 0 };
        loop {
            let bytes = match segment.read_frame(offset) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                // A place that a cursor made up; or damage, which is met again at the same place.
                Err(_) if segment.number == from.segment && offset == from.offset && offset != 0 && !made_up => {
                    made_up = true;
                    offset = 0;
                    continue;
                }
                Err(error) if shared.log.segment(segment.number).is_some() => {
                    let at = crate::slot::Place { segment: segment.number, offset, length: 0 };
                    return Err(shared.corrupt(at, &error.to_string()));
                }
                Err(_) => return Ok(None),
            };
            let Some(frame) = Frame::open(&bytes, segment.seed, offset) else { break };
            place.segment = segment.number;
            place.offset = offset;
            for (_, entry_bytes, entry) in frame.entries() {
                let Some(entry) = entry.filter(|entry| !entry.carried && entry.version > place.through) else {
                    continue;
                };
                if entry.version > visible {
                    return Ok(Some(Changes::Page { items, next: place.cursor(shared) }));
                }
                if items.len() == limit {
                    return Ok(Some(Changes::Page { items, next: place.cursor(shared) }));
                }
                place.through = entry.version;
                let slot = shared.index.slot(shared.index.key(&entry.id));
                if slot.is_some_and(|slot| slot.version() > entry.version) {
                    continue;
                }
                items.push(change(shared, entry, entry_bytes, slot));
            }
            offset = frame.end();
            place.offset = offset;
        }
    }
    Ok(Some(Changes::Page { items, next: place.cursor(shared) }))
}

/// What is told of an entry, by what the index has of its id.
pub(crate) fn change(shared: &Shared, entry: Entry<'_>, entry_bytes: &[u8], slot: Option<Slot>) -> Change {
    let now = shared.time.tell();
    let there =
        slot.is_some_and(|slot| !slot.has(GONE) && !slot.has(REMOVED) && slot.gone().is_none_or(|gone| gone > now));
    let whole = there && matches!(entry.what, What::Record(_));
    let Stored { id, version, stamp, record } = Stored::new(entry, &Bytes::copy_from_slice(entry_bytes));
    let record = record.filter(|_| whole);
    Change { id, snapshot: Snapshot { record, version, stamp, now: now.max(stamp) } }
}
