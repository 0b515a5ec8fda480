//! Reading a segment from its first byte: the frames that are whole and follow each other.

use hapax_core::Stamp;
use hapax_store::Counted;

use crate::{
    entry::{Entry, Record, What},
    frame::{self, Frame, Header, Seed},
    index::Index,
    slot::{Entrant, HEAVY, LISTED, LIVE, MOST_VERSION, NOBODY, Place, REMOVED, Slot, TOMBSTONE},
};

/// What is known of a segment after it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) frames: u64,
    pub(crate) entries: u64,
    pub(crate) first_version: u64,
    /// The first fresh version behind it.
    pub(crate) next_version: u64,
    pub(crate) last_stamp: u64,
    /// Where its last frame starts.
    pub(crate) last_frame: u64,
    pub(crate) end: u64,
    /// The checksum that its first frame names as that of the frame before.
    pub(crate) first_previous: u32,
    pub(crate) last_checksum: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broken {
    pub(crate) offset: u64,
    pub(crate) what: String,
}

#[derive(Debug)]
pub(crate) struct Walked {
    /// `None`: not one whole frame.
    pub(crate) summary: Option<Summary>,
    /// The whole frame behind the first place that is none, if there is one: what stands between is damage, not a torn
    /// end.
    pub(crate) data_behind: Option<u64>,
    /// What stands at the end looks like the start of a frame that was never finished.
    pub(crate) torn: bool,
}

/// `visit` sees each entry of the whole frames, in order.
pub(crate) fn walk(bytes: &[u8], seed: Seed, mut visit: impl FnMut(u64, &[u8], &Entry<'_>)) -> Result<Walked, Broken> {
    let mut summary: Option<Summary> = None;
    let mut offset = 0;
    while let Some(frame) = bytes.get(offset as usize..).and_then(|rest| Frame::open(rest, seed, offset)) {
        let header = frame.header;
        let known = summary.get_or_insert(Summary {
            first_version: header.first_version,
            next_version: header.first_version,
            first_previous: header.previous,
            last_checksum: header.previous,
            ..Summary::default()
        });
        let follows = (known.next_version..=MOST_VERSION + 1).contains(&header.first_version);
        if header.previous != known.last_checksum || !follows {
            return Err(Broken { offset, what: "a frame does not follow the one before".into() });
        }
        known.next_version = header.first_version;
        for (place, entry_bytes, entry) in frame.entries() {
            let Some(entry) = entry else {
                return Err(Broken { offset: place, what: "an entry of an unknown form".into() });
            };
            if !entry.carried {
                if entry.version.0 != known.next_version {
                    return Err(Broken { offset: place, what: "an entry with a version out of order".into() });
                }
                known.next_version += 1;
            }
            known.entries += 1;
            visit(place, entry_bytes, &entry);
        }
        known.frames += 1;
        known.last_frame = offset;
        known.last_stamp = header.stamp;
        known.last_checksum = header.checksum;
        offset = frame.end();
        known.end = offset;
    }
    let torn = summary
        .is_some_and(|known| bytes.get(offset as usize..).is_some_and(|rest| begins_behind(rest, known.last_checksum)));
    Ok(Walked { summary, data_behind: frame::find_after(bytes, seed, offset), torn })
}

/// Whether what stands here is the start of a frame that was to follow the one with this checksum.
pub(crate) fn begins_behind(bytes: &[u8], checksum: u32) -> bool {
    Header::parse(bytes).is_some_and(|header| header.previous == checksum)
}

/// The slot of an entry as if nothing had happened to it since.
pub(crate) fn slot_of(index: &Index, segment: u32, offset: u64, length: usize, entry: &Entry<'_>) -> Entrant {
    let key = index.key(&entry.id);
    let place = Place { segment, offset, length: length as u32 };
    match &entry.what {
        What::Removal(since) => {
            let mut slot = Slot::new(key, entry.version, place, NOBODY, REMOVED);
            slot.set_gone(Some(*since));
            Entrant { slot, tags: None, beside: 0 }
        }
        What::Record(record) => {
            let mut slot = Slot::new(key, entry.version, place, NOBODY, flags(record));
            slot.set_gone(moment(record.gone, entry.stamp));
            slot.set_expiry(moment(record.expiry, entry.stamp));
            Entrant { slot, tags: Some((record.surface, record.tenant)), beside: record.beside }
        }
    }
}

fn moment(due: Option<hapax_store::Due>, stamp: Stamp) -> Option<Stamp> {
    due.map(|due| due.resolve(stamp))
}

fn flags(record: &Record<'_>) -> u32 {
    let mut flags = if record.is_live() { LIVE } else { 0 };
    if record.counted == Counted::Tombstone {
        flags |= TOMBSTONE;
    }
    if !record.lists.is_empty() {
        flags |= LISTED;
    }
    if record.beside > 0 {
        flags |= HEAVY;
    }
    flags
}
