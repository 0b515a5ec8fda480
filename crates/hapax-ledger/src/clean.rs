//! Cleaning: the oldest segment goes first.
//!
//! What is still needed of it is carried to the end of the log in small slices, each a part of an ordinary frame. Since
//! the newest version of an id always lies in the latest of the segments that hold any, dropping the oldest one can
//! never bring an older version back; and a removal that lies in the oldest segment has outlived every older frame.

use std::{
    io,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, TryRecvError, sync_channel},
    },
    time::Duration,
};

use crate::{
    entry::What,
    frame::Frame,
    segment::{self, Segment},
    shared::{Carried, Load, Request, Shared, Slice},
    slot::{GONE, REMOVED},
};

/// Passes without a find until it is no accident any more: what the index names is not there.
const FRUITLESS: u32 = 3;
const SLICE_BYTES: u64 = 256 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    at: Option<(Arc<Segment>, u64)>,
    /// How often in a row a whole pass found nothing of what the index names.
    fruitless: u32,
    under_way: Option<Receiver<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cleaned {
    /// There may be more.
    Some,
    /// A slice is on its way through the writer.
    Waiting,
    Nothing,
}

impl Cleaner {
    pub(crate) fn wait(&self, most: Duration) {
        if let Some(done) = &self.under_way {
            // Whether it came or not is looked at by the next turn.
            let _ = done.recv_timeout(most);
        }
    }

    pub(crate) fn turn(&mut self, shared: &Shared) -> io::Result<Cleaned> {
        if let Some(done) = &self.under_way {
            match done.try_recv() {
                Err(TryRecvError::Empty) => return Ok(Cleaned::Waiting),
                Ok(()) | Err(TryRecvError::Disconnected) => self.under_way = None,
            }
        }
        let Some(oldest) = shared.log.oldest().filter(|oldest| oldest.is_sealed()) else { return Ok(Cleaned::Nothing) };
        let (needed, all_needed) = {
            let books = shared.index.books();
            (books.of_segment(oldest.number), books.needed())
        };
        if needed.slots == 0 {
            shared.log.retire(&oldest)?;
            shared.index.books().drop_oldest();
            shared.counters.retired.fetch_add(1, Ordering::Relaxed);
            self.at = None;
            return Ok(Cleaned::Some);
        }
        let sealed: u64 =
            shared.log.all().iter().filter(|segment| segment.is_sealed()).map(|segment| segment.taken()).sum();
        if sealed <= 2 * all_needed {
            return Ok(Cleaned::Nothing);
        }
        let from_start = self.at.is_none();
        let slice = self.gather(shared, &oldest)?;
        if slice.is_empty() {
            // Nothing found though something is needed: it moved, or went, while we read. Look again from the start.
            self.at = None;
            self.fruitless = if from_start { self.fruitless + 1 } else { 0 };
            let still = shared.index.books().of_segment(oldest.number).slots;
            if self.fruitless > FRUITLESS && still > 0 {
                let what = format!("{} byte 0: {still} entries are missing", segment::name(oldest.number));
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            return Ok(Cleaned::Nothing);
        }
        self.fruitless = 0;
        let (done, under_way) = sync_channel(1);
        if shared.queue.force(Request::Carry(Slice { items: slice, done })).is_ok() {
            self.under_way = Some(under_way);
            return Ok(Cleaned::Waiting);
        }
        Ok(Cleaned::Nothing)
    }

    fn gather(&mut self, shared: &Shared, oldest: &Arc<Segment>) -> io::Result<Vec<Carried>> {
        let mut at = match &self.at {
            Some((segment, at)) if segment.number == oldest.number => *at,
            Some(_) | None => 0,
        };
        let most = SLICE_BYTES.min(shared.log.segment_bytes / 8);
        let mut bytes = 0;
        let mut slice = Vec::new();
        while let Some(frame) = oldest.read_frame(at)? {
            let Some(frame) = Frame::open(&frame, oldest.seed, at) else { break };
            for (offset, entry_bytes, entry) in frame.entries() {
                let Some(entry) = entry else { continue };
                let key = shared.index.key(&entry.id);
                let Some(slot) = shared.index.slot(key) else { continue };
                let from = slot.place();
                if from.segment != oldest.number || from.offset != offset {
                    continue;
                }
                let what = match entry.what {
                    What::Removal(since) => Load::Marker(since),
                    What::Record(_) if slot.has(GONE) || slot.has(REMOVED) => {
                        Load::Marker(slot.gone().unwrap_or(entry.stamp))
                    }
                    What::Record(_) => Load::Whole(entry_bytes.to_vec()),
                };
                bytes += entry_bytes.len() as u64;
                slice.push(Carried { key, id: entry.id, version: entry.version, stamp: entry.stamp, from, what });
                if bytes >= most {
                    // The rest of this frame comes with the next slice; what was carried is passed over then.
                    self.at = Some((oldest.clone(), at));
                    return Ok(slice);
                }
            }
            at = frame.end();
        }
        self.at = Some((oldest.clone(), at));
        Ok(slice)
    }
}
