//! Frames: one per batch, written and synced as a whole.
//!
//! ```text
//!  0  magic          u32  "HXF1"
//!  4  checksum       u32  CRC-32C of bytes 8..40 and of the checksums of all entries, under the seed of this place
//!  8  length         u32  of the whole frame, a multiple of 8
//! 12  count          u32  entries
//! 16  first version  u64  of the fresh entries, which are consecutive
//! 24  stamp          u64  of the fresh entries
//! 32  previous       u32  checksum of the frame before, also over segments
//! 36  zero           u32
//! 40  entries
//! ```
//!
//! All numbers are little-endian. The seed is made of the store's id, the segment's number and the place inside the
//! segment: bytes that were written under another seed are not data, so a recycled segment holds no ghosts.

use crate::entry::{self, Entry};

pub(crate) const HEADER: usize = 40;
pub(crate) const ALIGN: usize = 8;
const MAGIC: u32 = u32::from_le_bytes(*b"HXF1");

/// What a checksum starts from in one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seed(u32);

impl Seed {
    pub(crate) fn new(store: &[u8; 16], segment: u32) -> Self {
        Self(crc32c::crc32c_append(crc32c::crc32c(store), &segment.to_le_bytes()))
    }

    /// Places are multiples of [`ALIGN`], so no two of a segment share a start.
    const fn at(self, offset: u64) -> u32 {
        self.0 ^ (offset / ALIGN as u64) as u32
    }

    pub(crate) fn checksum(self, offset: u64, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.at(offset), bytes)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) checksum: u32,
    pub(crate) length: u32,
    pub(crate) count: u32,
    pub(crate) first_version: u64,
    pub(crate) stamp: u64,
    pub(crate) previous: u32,
}

impl Header {
    /// Reads the fields; whether they are true only the checksum can say.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<HEADER>()?;
        if u32_at(bytes, 0)? != MAGIC || u32_at(bytes, 36)? != 0 {
            return None;
        }
        let header = Self {
            checksum: u32_at(bytes, 4)?,
            length: u32_at(bytes, 8)?,
            count: u32_at(bytes, 12)?,
            first_version: u64_at(bytes, 16)?,
            stamp: u64_at(bytes, 24)?,
            previous: u32_at(bytes, 32)?,
        };
        let length = header.length as usize;
        (length >= HEADER && length.is_multiple_of(ALIGN)).then_some(header)
    }
}

/// Fills in the header of a frame whose entries are already sealed. `bytes` is the whole frame.
pub(crate) fn seal(
    bytes: &mut [u8],
    seed: Seed,
    offset: u64,
    count: u32,
    first_version: u64,
    stamp: u64,
    previous: u32,
) -> u32 {
    let length = bytes.len() as u32;
    let Some((header, entries)) = bytes.split_first_chunk_mut::<HEADER>() else { return 0 };
    header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..12].copy_from_slice(&length.to_le_bytes());
    header[12..16].copy_from_slice(&count.to_le_bytes());
    header[16..24].copy_from_slice(&first_version.to_le_bytes());
    header[24..32].copy_from_slice(&stamp.to_le_bytes());
    header[32..36].copy_from_slice(&previous.to_le_bytes());
    header[36..40].fill(0);
    let mut checksum = crc32c::crc32c_append(seed.at(offset), &header[8..HEADER]);
    let mut at = 0;
    while let Some((length, entry_checksum)) = entry::measure(entries, at) {
        checksum = crc32c::crc32c_append(checksum, &entry_checksum.to_le_bytes());
        at += length;
    }
    header[4..8].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// A frame that is whole and belongs where it was found.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) header: Header,
    pub(crate) offset: u64,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// `bytes` starts at `offset` of the segment and may be longer than the frame. `None`: there is no whole frame here.
    pub(crate) fn open(bytes: &'a [u8], seed: Seed, offset: u64) -> Option<Self> {
        let header = Header::parse(bytes)?;
        let bytes = bytes.get(..header.length as usize)?;
        let mut checksum = crc32c::crc32c_append(seed.at(offset), &bytes[8..HEADER]);
        let entries = &bytes[HEADER..];
        let mut at = 0;
        let mut count = 0;
        while at < entries.len() {
            let (length, entry_checksum) = entry::measure(entries, at)?;
            let entry = entries.get(at..at + length)?;
            if seed.checksum(offset + (HEADER + at) as u64, &entry[8..]) != entry_checksum {
                return None;
            }
            checksum = crc32c::crc32c_append(checksum, &entry_checksum.to_le_bytes());
            at += length;
            count += 1;
        }
        (checksum == header.checksum && count == header.count).then_some(Self { header, offset, bytes })
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.header.length)
    }

    /// The entries with their places in the segment. An entry that cannot be read (though its checksum holds) is `None`.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, &'a [u8], Option<Entry<'a>>)> + use<'a> {
        let entries = &self.bytes[HEADER..];
        let base = self.offset + HEADER as u64;
        let mut at = 0;
        std::iter::from_fn(move || {
            let (length, _) = entry::measure(entries, at)?;
            let bytes = entries.get(at..at + length)?;
            let place = base + at as u64;
            at += length;
            Some((place, bytes, Entry::parse(bytes)))
        })
    }
}

/// Looks for a whole frame anywhere behind `from`: the proof that what stands at `from` was once followed by data.
pub(crate) fn find_after(bytes: &[u8], seed: Seed, from: u64) -> Option<u64> {
    let mut at = usize::try_from(from).ok()?.next_multiple_of(ALIGN);
    let magic = MAGIC.to_le_bytes();
    while let Some(rest) = bytes.get(at..) {
        if rest.len() < HEADER {
            return None;
        }
        if rest.starts_with(&magic) && Frame::open(rest, seed, at as u64).is_some() {
            return Some(at as u64);
        }
        at += ALIGN;
    }
    None
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}
