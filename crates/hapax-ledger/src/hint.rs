//! Hint files: the slots of a sealed segment, so that a start reads keys and not bodies.
//!
//! ```text
//!  0  magic "HXH1", checksum u32 (CRC-32C of all that follows, under the seed of the segment)
//!  8  segment u32, accounts u32, slots u64, frames u64, entries u64
//! 40  first version u64, next version u64, last stamp u64, end u64, first previous u32, last checksum u32
//! 80  accounts: surface (16), tenant (16); then slots of 48 bytes, their account counted within this file
//! ```
//!
//! A hint can always be thrown away: then the segment itself is read. It leaves out what a later write has replaced, but
//! never what was merely forgotten, since that still hides what is older.

use std::{io, sync::Arc};

use foldhash::fast::RandomState;
use hapax_core::{Tag, Version};
use hashbrown::HashMap;

use crate::{
    disk::{Mode, read_all, write_whole},
    frame::{Seed, u32_at, u64_at},
    index::Index,
    log::Log,
    segment::{self, Segment},
    slot::{NOBODY, Slot},
    walk::{self, Summary, slot_of},
};

const MAGIC: &[u8; 4] = b"HXH1";
const HEADER: usize = 80;
const MOST: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) summary: Summary,
    pub(crate) accounts: Vec<(Tag, Tag)>,
    slots: Vec<u8>,
}

impl Hint {
    pub(crate) fn slots(&self) -> impl Iterator<Item = (Slot, Option<(Tag, Tag)>)> {
        self.slots.as_chunks::<48>().0.iter().map(|bytes| {
            let slot = Slot::from_bytes(bytes);
            (slot, self.accounts.get(slot.account() as usize).copied())
        })
    }

    /// `None`: there is none, or none that can be trusted.
    pub(crate) fn read(log: &Log, number: u32) -> Option<Self> {
        let file = log.disk.open(&log.dir.join(segment::hint_name(number)), Mode::Read).ok()?;
        let bytes = read_all(&*file, MOST).ok()?;
        Self::parse(&bytes, log.seed(number), number)
    }

    pub(crate) fn parse(bytes: &[u8], seed: Seed, number: u32) -> Option<Self> {
        if !bytes.starts_with(MAGIC) || bytes.len() < HEADER || u32_at(bytes, 8)? != number {
            return None;
        }
        if seed.checksum(0, &bytes[8..]) != u32_at(bytes, 4)? {
            return None;
        }
        let summary = Summary {
            frames: u64_at(bytes, 24)?,
            entries: u64_at(bytes, 32)?,
            first_version: u64_at(bytes, 40)?,
            next_version: u64_at(bytes, 48)?,
            last_stamp: u64_at(bytes, 56)?,
            // Only asked of the newest segment, which has no hint.
            last_frame: 0,
            end: u64_at(bytes, 64)?,
            first_previous: u32_at(bytes, 72)?,
            last_checksum: u32_at(bytes, 76)?,
        };
        let accounts_end = HEADER.checked_add((u32_at(bytes, 12)? as usize).checked_mul(32)?)?;
        let accounts = bytes.get(HEADER..accounts_end)?.as_chunks::<32>().0;
        let accounts = accounts.iter().filter_map(|pair| {
            let (surface, tenant) = pair.split_first_chunk::<16>()?;
            Some((Tag(*surface), Tag(*tenant.first_chunk()?)))
        });
        let accounts = accounts.collect();
        let slots = bytes.get(accounts_end..)?;
        if slots.len() as u64 != u64_at(bytes, 16)?.checked_mul(48)? {
            return None;
        }
        Some(Self { summary, accounts, slots: slots.to_vec() })
    }
}

/// Writes the hint of a sealed segment, from the segment itself.
pub(crate) fn write(log: &Log, index: &Index, segment: &Arc<Segment>) -> io::Result<()> {
    let bytes = segment.read(0, segment.end() as usize)?;
    let mut accounts: HashMap<(Tag, Tag), u32, RandomState> = HashMap::default();
    let mut account_bytes = Vec::new();
    let mut slots = Vec::new();
    let walked = walk::walk(&bytes, segment.seed, |offset, entry_bytes, entry| {
        let newest = index.slot(index.key(&entry.id)).map_or(Version::NEVER, |slot| slot.version());
        if newest > entry.version {
            return;
        }
        let (mut slot, tags) = slot_of(index, segment.number, offset, entry_bytes.len(), entry);
        let account = tags.map_or(NOBODY, |tags| {
            let next = accounts.len() as u32;
            *accounts.entry(tags).or_insert_with(|| {
                account_bytes.extend_from_slice(&tags.0.0);
                account_bytes.extend_from_slice(&tags.1.0);
                next
            })
        });
        slot.set_account(account);
        slots.extend_from_slice(&slot.to_bytes());
    });
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the segment is damaged");
    let summary =
        walked.map_err(|_| damaged())?.summary.filter(|summary| summary.end == segment.end()).ok_or_else(damaged)?;

    let mut hint = Vec::with_capacity(HEADER + account_bytes.len() + slots.len());
    hint.extend_from_slice(MAGIC);
    hint.extend_from_slice(&[0; 4]);
    hint.extend_from_slice(&segment.number.to_le_bytes());
    hint.extend_from_slice(&(accounts.len() as u32).to_le_bytes());
    for number in [
        (slots.len() / 48) as u64,
        summary.frames,
        summary.entries,
        summary.first_version,
        summary.next_version,
        summary.last_stamp,
        summary.end,
    ] {
        hint.extend_from_slice(&number.to_le_bytes());
    }
    hint.extend_from_slice(&summary.first_previous.to_le_bytes());
    hint.extend_from_slice(&summary.last_checksum.to_le_bytes());
    hint.extend_from_slice(&account_bytes);
    hint.extend_from_slice(&slots);
    let checksum = segment.seed.checksum(0, &hint[8..]);
    hint[4..8].copy_from_slice(&checksum.to_le_bytes());
    write_whole(&*log.disk, &log.dir, &segment::hint_name(segment.number), &hint)
}
