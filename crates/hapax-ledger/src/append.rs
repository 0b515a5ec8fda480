//! Appending one frame after the other to the log. Shared by the ledger and by the raw log that it is measured against.

use std::{io, sync::Arc, sync::atomic::Ordering};

use crate::{
    entry,
    frame::{self, HEADER},
    log::{Log, is_full},
    segment::Segment,
    slot::Place,
};

/// A frame never grows beyond this, so that nobody waits long for one.
pub(crate) const MOST_FRAME: u64 = 4 << 20;

#[derive(Debug)]
pub(crate) struct Appender {
    log: Arc<Log>,
    active: Arc<Segment>,
    offset: u64,
    previous: u32,
    pub(crate) next_version: u64,
    pub(crate) last_stamp: u64,
    buffer: Vec<u8>,
    count: u32,
    fresh: u64,
}

/// Where the log ended when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    pub(crate) active: Arc<Segment>,
    pub(crate) previous: u32,
    pub(crate) next_version: u64,
    pub(crate) last_stamp: u64,
}

#[derive(Debug)]
pub(crate) enum Start {
    Ready,
    /// The disk is full and nothing more fits.
    NoRoom,
}

impl Appender {
    pub(crate) fn new(log: Arc<Log>, tail: Tail) -> Self {
        Self {
            log,
            offset: tail.active.end(),
            active: tail.active,
            previous: tail.previous,
            next_version: tail.next_version,
            last_stamp: tail.last_stamp,
            buffer: Vec::new(),
            count: 0,
            fresh: 0,
        }
    }

    pub(crate) fn active(&self) -> &Arc<Segment> {
        &self.active
    }

    /// What is left of the active segment.
    pub(crate) fn left(&self) -> u64 {
        self.active.size.saturating_sub(self.offset)
    }

    /// Begins a frame in which an entry of `first` bytes fits.
    pub(crate) fn start(&mut self, first: usize) -> io::Result<Start> {
        self.buffer.clear();
        self.buffer.resize(HEADER, 0);
        self.count = 0;
        self.fresh = 0;
        if self.left() < (HEADER + first) as u64 {
            if self.log.is_tight() && !self.log.has_ready() {
                return Ok(Start::NoRoom);
            }
            match self.log.roll() {
                Ok(next) => {
                    self.active = next;
                    self.offset = 0;
                }
                Err(error) if is_full(&error) => return Ok(Start::NoRoom),
                Err(error) => return Err(error),
            }
        }
        Ok(Start::Ready)
    }

    pub(crate) fn fits(&self, entry: usize) -> bool {
        (self.buffer.len() + entry) as u64 <= self.left().min(MOST_FRAME)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn version(&self) -> u64 {
        self.next_version + self.fresh
    }

    /// Adds what `put` appends, one entry.
    pub(crate) fn add(&mut self, fresh: bool, put: impl FnOnce(&mut Vec<u8>)) -> Place {
        let at = self.buffer.len();
        put(&mut self.buffer);
        let offset = self.offset + at as u64;
        entry::seal(&mut self.buffer, at, self.active.seed, offset);
        self.count += 1;
        self.fresh += u64::from(fresh);
        Place { segment: self.active.number, offset, length: (self.buffer.len() - at) as u32 }
    }

    /// One write, one sync. Only after this may anybody hear of what is in the frame.
    pub(crate) fn commit(&mut self, stamp: u64) -> Result<(), Failed> {
        let seed = self.active.seed;
        let previous = self.previous;
        let checksum = frame::seal(&mut self.buffer, seed, self.offset, self.count, self.next_version, stamp, previous);
        self.active.file.write_at(&self.buffer, self.offset).map_err(Failed::Write)?;
        self.active.file.sync().map_err(Failed::Sync)?;
        if self.offset == 0 {
            *self.active.journal.lock() = Some(Box::default());
            self.active.first_version.store(self.next_version, Ordering::Release);
            if let Some(before) = self.active.number.checked_sub(1).and_then(|number| self.log.segment(number)) {
                before.seal();
            }
        }
        if let Some(journal) = self.active.journal.lock().as_mut() {
            let summary = &mut journal.summary;
            if self.offset == 0 {
                summary.first_version = self.next_version;
                summary.first_previous = previous;
            }
            summary.frames += 1;
            summary.entries += u64::from(self.count);
            summary.next_version = self.next_version + self.fresh;
            summary.last_stamp = stamp;
            summary.last_frame = self.offset;
            summary.end = self.offset + self.buffer.len() as u64;
            summary.last_checksum = checksum;
        }
        self.offset += self.buffer.len() as u64;
        self.previous = checksum;
        self.next_version += self.fresh;
        self.last_stamp = stamp;
        self.active.set_end(self.offset);
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) enum Failed {
    /// Nothing was synced: if this was for want of room, the frame is no frame, and the place can be used again.
    Write(io::Error),
    Sync(io::Error),
}

#[cfg(test)]
mod tests {
    use hapax_core::{Id, Stamp, Version};

    use super::*;
    use crate::{entry, options::Options, recover};

    fn write(appender: &mut Appender, number: u8) {
        assert!(matches!(appender.start(entry::REMOVAL_BYTES), Ok(Start::Ready)));
        let version = Version(appender.version());
        appender.add(true, |buffer| {
            entry::put_removal(buffer, &Id([number; 32]), version, Stamp(5), Stamp(5), false);
        });
        assert!(appender.commit(5).is_ok());
    }

    /// A segment was made, and the next one written: the start after it refused, although nothing was lost.
    #[test]
    fn a_segment_that_was_passed_over_is_no_damage_where_the_chain_is_whole() {
        let dir = std::env::temp_dir().join(format!("hapax-passed-over-{}", std::process::id()));
        let _fresh = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let options = Options::new(&dir).segment_bytes(4096, 4096);
        let opened = recover::open(&options).unwrap();
        let mut appender = Appender::new(opened.log.clone(), opened.tail);
        write(&mut appender, 1);
        opened.log.roll().unwrap();
        appender.active = opened.log.roll().unwrap();
        appender.offset = 0;
        write(&mut appender, 2);
        drop(appender);

        let again = recover::open(&options).unwrap();
        assert_eq!(again.tail.next_version, 3, "both writes are there");

        // With the first write damaged the chain is broken, and the start says so.
        let first = dir.join(crate::segment::name(1));
        let mut bytes = std::fs::read(&first).unwrap();
        bytes[50] ^= 1;
        std::fs::write(&first, bytes).unwrap();
        assert!(recover::open(&options).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
