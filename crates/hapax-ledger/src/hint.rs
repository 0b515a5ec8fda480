//! Hint files: the slots of a sealed segment, so that a start reads keys and not bodies.
//!
//! ```text
//!  0  magic "HXH2", checksum u32 (CRC-32C of all that follows, under the seed of the segment)
//!  8  segment u32, accounts u32, slots u64, frames u64, entries u64
//! 40  first version u64, next version u64, last stamp u64, end u64, first previous u32, last checksum u32
//! 80  accounts: surface (16), tenant (16); then slots of 48 bytes, their account counted within this file
//!     then how many bytes lie beside each heavy one of them, u64 each, in their order
//! ```
//!
//! "HXH1" is the same without the last part: it knows no heavy slots, and one bit more of the account in their place.
//!
//! A hint can always be thrown away: then the segment itself is read. It leaves out what a later write has replaced, but
//! never what was merely forgotten, since that still hides what is older.

use std::{io, sync::Arc};

use hapax_core::{Tag, Version};

use crate::{
    disk::{Mode, read_all, write_whole},
    frame::{Seed, u32_at, u64_at},
    index::Index,
    journal::Journal,
    log::Log,
    segment::{self, Segment},
    slot::{Entrant, HEAVY, MOST_VERSION, Slot},
    walk::{self, Summary, slot_of},
};

const MAGIC: &[u8; 4] = b"HXH2";
const FIRST: &[u8; 4] = b"HXH1";
const HEADER: usize = 80;
const MOST: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) summary: Summary,
    pub(crate) accounts: Vec<(Tag, Tag)>,
    slots: Vec<[u8; 48]>,
    /// `None`: it is from before anybody counted what lies beside a record.
    beside: Option<Vec<u64>>,
}

impl Hint {
    pub(crate) fn slots(&self) -> impl Iterator<Item = Entrant> {
        let mut besides = self.beside.iter().flatten().copied();
        self.slots.iter().map(move |bytes| {
            let mut slot = Slot::from_bytes(bytes);
            if self.beside.is_none() {
                slot.unset(HEAVY);
            }
            let beside = if slot.has(HEAVY) { besides.next().unwrap_or(0) } else { 0 };
            Entrant { slot, tags: self.accounts.get(slot.account() as usize).copied(), beside }
        })
    }

    /// How long the file is.
    pub(crate) fn bytes(&self) -> u64 {
        let besides = self.beside.as_ref().map_or(0, Vec::len);
        (HEADER + 32 * self.accounts.len() + 48 * self.slots.len() + 8 * besides) as u64
    }

    /// `None`: there is none, or none that can be trusted.
    pub(crate) fn read(log: &Log, number: u32) -> Option<Self> {
        let file = log.disk.open(&log.dir.join(segment::hint_name(number)), Mode::Read).ok()?;
        let bytes = read_all(&*file, MOST).ok()?;
        Self::parse(&bytes, log.seed(number), number)
    }

    pub(crate) fn parse(bytes: &[u8], seed: Seed, number: u32) -> Option<Self> {
        let first = bytes.starts_with(FIRST);
        if !(first || bytes.starts_with(MAGIC)) || bytes.len() < HEADER || u32_at(bytes, 8)? != number {
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
        let slots_end = usize::try_from(u64_at(bytes, 16)?).ok()?.checked_mul(48)?.checked_add(accounts_end)?;
        let slots = bytes.get(accounts_end..slots_end)?.as_chunks().0.to_vec();
        let (besides, odd) = bytes.get(slots_end..)?.as_chunks();
        let heavy = if first { 0 } else { slots.iter().filter(|bytes| Slot::from_bytes(bytes).has(HEAVY)).count() };
        if besides.len() != heavy || !odd.is_empty() {
            return None;
        }
        let beside = (!first).then(|| besides.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect());
        let hint = Self { summary, accounts, slots, beside };
        // It speaks of this segment, and of nothing beyond its end.
        let inside = |slot: &Slot| {
            let place = slot.place();
            let end = place.offset + u64::from(place.length);
            place.segment == number && end <= hint.summary.end && !slot.is_empty()
        };
        let versions = hint.summary.first_version..=MOST_VERSION + 1;
        if !versions.contains(&hint.summary.next_version) {
            return None;
        }
        let all_inside = hint.slots().all(|entrant| inside(&entrant.slot));
        all_inside.then_some(hint)
    }
}

/// Writes the hint of a sealed segment: from what the writer remembers of it, or else from the segment itself.
/// Says how many bytes it has.
pub(crate) fn write(log: &Log, index: &Index, segment: &Arc<Segment>) -> io::Result<u64> {
    let journal = match segment.journal.lock().take() {
        Some(journal) if journal.summary.end == segment.end() => journal,
        Some(_) | None => Box::new(read_again(index, segment)?),
    };
    let Journal { summary, mut slots, accounts, beside, .. } = *journal;
    let newest = |slot: &Slot| index.slot(slot.key()).map_or(Version::NEVER, |slot| slot.version());
    slots.retain(|slot| newest(slot) <= slot.version());
    // In the order of the index, so that a start walks through memory and does not jump.
    slots.sort_unstable_by_key(|slot| index.order(slot.key()));

    let mut hint = Vec::with_capacity(HEADER + 32 * accounts.len() + 48 * slots.len());
    hint.extend_from_slice(MAGIC);
    hint.extend_from_slice(&[0; 4]);
    hint.extend_from_slice(&segment.number.to_le_bytes());
    hint.extend_from_slice(&(accounts.len() as u32).to_le_bytes());
    for number in [
        slots.len() as u64,
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
    for (surface, tenant) in &accounts {
        hint.extend_from_slice(&surface.0);
        hint.extend_from_slice(&tenant.0);
    }
    for slot in &slots {
        hint.extend_from_slice(&slot.to_bytes());
    }
    for slot in slots.iter().filter(|slot| slot.has(HEAVY)) {
        let beside = beside.get(&(slot.key(), slot.version())).copied().unwrap_or(0);
        hint.extend_from_slice(&beside.to_le_bytes());
    }
    let checksum = segment.seed.checksum(0, &hint[8..]);
    hint[4..8].copy_from_slice(&checksum.to_le_bytes());
    write_whole(&*log.disk, &log.dir, &segment::hint_name(segment.number), &hint)?;
    Ok(hint.len() as u64)
}

fn read_again(index: &Index, segment: &Segment) -> io::Result<Journal> {
    let bytes = segment.read(0, segment.end() as usize)?;
    let mut journal = Journal::default();
    let walked = walk::walk(&bytes, segment.seed, |offset, entry_bytes, entry| {
        journal.add(slot_of(index, segment.number, offset, entry_bytes.len(), entry));
    });
    let summary = walked.ok().and_then(|walked| walked.summary).filter(|summary| summary.end == segment.end());
    journal.summary = summary.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the segment is damaged"))?;
    Ok(journal)
}
