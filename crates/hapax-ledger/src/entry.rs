//! Entries: what one write leaves in a frame.
//!
//! ```text
//!  0  length    u32  of the whole entry, a multiple of 8
//!  4  checksum  u32  CRC-32C of bytes 8.., under the seed of this place
//!  8  what      u8   1 record, 2 removal; + 128: carried over from a cleaned segment
//!  9  padding   u8   zero bytes at the end
//! 10  kind      u8   of the envelope
//! 11  flags     u8   1 tombstone, 2 in doubt, 4 bodies lie beside it
//! 12  dues      u8   two bits each for lease end, expiry, gone: 0 none, 1 after the stamp, 2 at a moment
//! 13  lists     u8   how many list entries
//! 14  zero      u16
//! 16  version   u64
//! 24  stamp     u64
//! 32  id        32 bytes
//! 64  removal: absent since (u64)
//! 64  record:  surface (16), tenant (16), a u64 for each due, how many bytes lie beside it (u64, if any do), lists of
//!              (u8, tag 16, order u64), payload, padding
//! ```
//!
//! An entry names its own version and stamp, so that it can be read without its frame and carried over as it is.

use bytes::Bytes;
use hapax_core::{Id, Millis, Stamp, Tag, Version};
use hapax_store::{Counted, Due, Entry as Listed, Envelope, Kind, List};

use crate::{
    frame::{ALIGN, Seed, u32_at, u64_at},
    slot::MOST_VERSION,
};

const RECORD: u8 = 1;
const REMOVAL: u8 = 2;
const CARRIED: u8 = 128;
const BESIDE: u8 = 4;
const FIXED: usize = 64;
const LISTED: usize = 25;

/// A removal takes this much; so does what must be remembered of a record that is gone.
pub(crate) const REMOVAL_BYTES: usize = FIXED + 8;

/// Half of what a frame may hold: anything larger is better kept as a body.
pub(crate) const MOST_BYTES: usize = 2 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What<'a> {
    Record(Record<'a>),
    /// Absent since this moment.
    Removal(Stamp),
}

/// A record as it stands on disk, without its payload being copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) surface: Tag,
    pub(crate) tenant: Tag,
    pub(crate) counted: Counted,
    pub(crate) lease_end: Option<Due>,
    pub(crate) expiry: Option<Due>,
    pub(crate) gone: Option<Due>,
    pub(crate) in_doubt: bool,
    pub(crate) lists: Vec<Listed>,
    pub(crate) beside: u64,
    pub(crate) payload: &'a [u8],
}

impl Record<'_> {
    pub(crate) fn is_live(&self) -> bool {
        self.lease_end.is_some() || self.in_doubt
    }

    pub(crate) fn envelope(self, payload: Bytes) -> Envelope {
        Envelope {
            kind: self.kind,
            surface: self.surface,
            tenant: self.tenant,
            counted: self.counted,
            lease_end: self.lease_end,
            expiry: self.expiry,
            gone: self.gone,
            in_doubt: self.in_doubt,
            entries: self.lists,
            beside: self.beside,
            payload,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) id: Id,
    pub(crate) version: Version,
    pub(crate) stamp: Stamp,
    /// Not a change, only a change of place.
    pub(crate) carried: bool,
    pub(crate) what: What<'a>,
}

impl<'a> Entry<'a> {
    /// Checks the seed as well; for entries that are read alone.
    pub(crate) fn open(bytes: &'a [u8], seed: Seed, offset: u64) -> Option<Self> {
        let (length, checksum) = measure(bytes, 0)?;
        if length != bytes.len() || seed.checksum(offset, &bytes[8..]) != checksum {
            return None;
        }
        Self::parse(bytes)
    }

    /// `bytes` is exactly one entry whose checksum holds.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let head = bytes.first_chunk::<FIXED>()?;
        let end = bytes.len().checked_sub(usize::from(head[9]))?;
        let body = bytes.get(FIXED..end)?;
        let what = match head[8] & !CARRIED {
            RECORD => What::Record(parse_record(head, body)?),
            REMOVAL if body.len() == 8 => What::Removal(Stamp(u64_at(body, 0)?)),
            _ => return None,
        };
        let version = u64_at(head, 16)?;
        if version == 0 || version > MOST_VERSION {
            return None;
        }
        Some(Self {
            id: Id(*bytes.get(32..)?.first_chunk()?),
            version: Version(version),
            stamp: Stamp(u64_at(head, 24)?),
            carried: head[8] & CARRIED != 0,
            what,
        })
    }
}

fn parse_record<'a>(head: &[u8; FIXED], body: &'a [u8]) -> Option<Record<'a>> {
    let mut rest = body;
    let surface = Tag(*take::<16>(&mut rest)?);
    let tenant = Tag(*take::<16>(&mut rest)?);
    let mut due = |shift: u8| -> Option<Option<Due>> {
        let kind = head[12] >> shift & 3;
        if kind == 0 {
            return Some(None);
        }
        let number = u64::from_le_bytes(*take::<8>(&mut rest)?);
        match kind {
            1 => Some(Some(Due::After(Millis(number)))),
            2 => Some(Some(Due::At(Stamp(number)))),
            _ => None,
        }
    };
    let (lease_end, expiry, gone) = (due(0)?, due(2)?, due(4)?);
    let beside = if head[11] & BESIDE == 0 { 0 } else { u64::from_le_bytes(*take::<8>(&mut rest)?) };
    let mut lists = Vec::new();
    for _ in 0..head[13] {
        let listed = take::<LISTED>(&mut rest)?;
        let list = match listed[0] {
            1 => List::Group,
            2 => List::Queue,
            _ => return None,
        };
        lists.push(Listed { list, tag: Tag(*listed[1..].first_chunk()?), order: u64_at(listed, 17)? });
    }
    Some(Record {
        kind: Kind(head[10]),
        surface,
        tenant,
        counted: if head[11] & 1 == 0 { Counted::Record } else { Counted::Tombstone },
        lease_end,
        expiry,
        gone,
        in_doubt: head[11] & 2 != 0,
        lists,
        beside,
        payload: rest,
    })
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (chunk, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(chunk)
}

/// Length and checksum of the entry that starts at `at`, if one could.
pub(crate) fn measure(entries: &[u8], at: usize) -> Option<(usize, u32)> {
    let rest = entries.get(at..)?;
    let length = u32_at(rest, 0)? as usize;
    let checksum = u32_at(rest, 4)?;
    (length >= FIXED && length.is_multiple_of(ALIGN) && length <= rest.len()).then_some((length, checksum))
}

/// How many bytes a record will take in a frame.
pub(crate) fn size_of(envelope: &Envelope) -> usize {
    let dues = [envelope.lease_end, envelope.expiry, envelope.gone].iter().flatten().count();
    let numbers = 8 * (dues + usize::from(envelope.beside > 0));
    (FIXED + 32 + numbers + LISTED * envelope.entries.len() + envelope.payload.len()).next_multiple_of(ALIGN)
}

pub(crate) fn put_record(buffer: &mut Vec<u8>, id: &Id, version: Version, stamp: Stamp, envelope: &Envelope) {
    let start = buffer.len();
    let mut head = [0; FIXED];
    head[8] = RECORD;
    head[10] = envelope.kind.0;
    head[11] = u8::from(envelope.counted == Counted::Tombstone) | u8::from(envelope.in_doubt) << 1;
    if envelope.beside > 0 {
        head[11] |= BESIDE;
    }
    head[13] = envelope.entries.len().min(Envelope::MOST_ENTRIES) as u8;
    let mut dues = [0; 24];
    let mut dues_end = 0;
    for (shift, due) in [(0, envelope.lease_end), (2, envelope.expiry), (4, envelope.gone)] {
        let (kind, number) = match due {
            None => continue,
            Some(Due::After(span)) => (1, span.0),
            Some(Due::At(at)) => (2, at.0),
        };
        head[12] |= kind << shift;
        dues[dues_end..dues_end + 8].copy_from_slice(&number.to_le_bytes());
        dues_end += 8;
    }
    name(&mut head, id, version, stamp);
    buffer.extend_from_slice(&head);
    buffer.extend_from_slice(&envelope.surface.0);
    buffer.extend_from_slice(&envelope.tenant.0);
    buffer.extend_from_slice(&dues[..dues_end]);
    if envelope.beside > 0 {
        buffer.extend_from_slice(&envelope.beside.to_le_bytes());
    }
    for listed in envelope.entries.iter().take(Envelope::MOST_ENTRIES) {
        buffer.push(listed.list as u8);
        buffer.extend_from_slice(&listed.tag.0);
        buffer.extend_from_slice(&listed.order.to_le_bytes());
    }
    buffer.extend_from_slice(&envelope.payload);
    finish(buffer, start);
}

pub(crate) fn put_removal(buffer: &mut Vec<u8>, id: &Id, version: Version, stamp: Stamp, since: Stamp, carried: bool) {
    let start = buffer.len();
    let mut head = [0; FIXED];
    head[8] = REMOVAL | if carried { CARRIED } else { 0 };
    name(&mut head, id, version, stamp);
    buffer.extend_from_slice(&head);
    buffer.extend_from_slice(&since.0.to_le_bytes());
    finish(buffer, start);
}

/// An entry from another place, as it is but for the mark that this is no change.
pub(crate) fn put_carried(buffer: &mut Vec<u8>, entry: &[u8]) {
    let start = buffer.len();
    buffer.extend_from_slice(entry);
    if let Some(what) = buffer.get_mut(start + 8) {
        *what |= CARRIED;
    }
}

fn name(head: &mut [u8; FIXED], id: &Id, version: Version, stamp: Stamp) {
    head[16..24].copy_from_slice(&version.0.to_le_bytes());
    head[24..32].copy_from_slice(&stamp.0.to_le_bytes());
    head[32..64].copy_from_slice(&id.0);
}

fn finish(buffer: &mut Vec<u8>, start: usize) {
    let length = buffer.len() - start;
    let padded = length.next_multiple_of(ALIGN);
    buffer.resize(start + padded, 0);
    buffer[start + 9] = (padded - length) as u8;
    buffer[start..start + 4].copy_from_slice(&(padded as u32).to_le_bytes());
}

/// Puts the checksum of its place on the entry that starts at `at` of the buffer.
pub(crate) fn seal(buffer: &mut [u8], at: usize, seed: Seed, offset: u64) {
    let Some(entry) = buffer.get_mut(at..) else { return };
    let Some((length, _)) = measure(entry, 0) else { return };
    let checksum = seed.checksum(offset, &entry[8..length]);
    entry[4..8].copy_from_slice(&checksum.to_le_bytes());
}
