//! Appending one frame after the other to the log. Shared by the ledger and by the raw log that it is measured against.

use std::{io, sync::Arc, sync::atomic::Ordering};

use crate::{
    direct::Direct,
    disk::BLOCK,
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
    /// Where the active segment ends, as far as frames are concerned.
    limit: u64,
    offset: u64,
    /// Where it can be had.
    direct: Option<Direct>,
    /// Blocks before this have been written to, and are in memory. Not where they are written past it.
    touched: u64,
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
            direct: Direct::of(&log, &tail.active),
            log,
            limit: tail.active.size,
            offset: tail.active.end(),
            touched: tail.active.end().next_multiple_of(BLOCK),
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
        self.limit.saturating_sub(self.offset)
    }

    /// Begins a frame in which an entry of `first` bytes fits.
    pub(crate) fn start(&mut self, first: usize) -> io::Result<Start> {
        self.buffer.clear();
        self.buffer.resize(HEADER, 0);
        self.count = 0;
        self.fresh = 0;
        let needed = (HEADER + first) as u64;
        if self.left() < needed && self.offset > 0 {
            if self.log.is_tight() && !self.log.has_ready() {
                return Ok(Start::NoRoom);
            }
            match self.log.roll() {
                Ok(next) => self.go_on_in(next),
                Err(error) if is_full(&error) => return Ok(Start::NoRoom),
                Err(error) => return Err(error),
            }
        }
        // A segment is never passed over: what is too large for an empty one makes it grow. A start could not tell an
        // empty segment from one that has lost its frames but by the chain of those behind it.
        self.limit = self.limit.max(if self.offset == 0 { needed } else { 0 });
        Ok(Start::Ready)
    }

    fn go_on_in(&mut self, next: Arc<Segment>) {
        self.direct = Direct::of(&self.log, &next);
        (self.limit, self.offset, self.touched) = (next.size, 0, 0);
        self.active = next;
    }

    /// What no writer does. For tests.
    pub(crate) fn pass_over(&mut self) -> io::Result<()> {
        let next = self.log.roll()?;
        self.go_on_in(next);
        Ok(())
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

    fn write(&mut self) -> io::Result<()> {
        let end = self.offset + self.buffer.len() as u64;
        if let Some(direct) = self.direct.as_mut().filter(|_| end <= self.active.size) {
            match direct.write(&self.buffer, self.offset) {
                Err(error) if is_unable(&error) => {}
                done => return done,
            }
        }
        // It cannot be done here, or what is too large makes the segment grow.
        if self.direct.take().is_some() {
            self.touched = self.offset.next_multiple_of(BLOCK);
        }
        self.clear_the_last_block()?;
        self.active.file.write_at(&self.buffer, self.offset)
    }

    /// Writes zeros over the block that the frame ends in, if it is the first to touch it. Of a block that is written in
    /// part the system would first read the rest from the disk, unless it has it in memory; and behind the end there is
    /// nothing worth keeping. Not with the frame itself: of a write that fails half-way the frame must not be whole.
    fn clear_the_last_block(&mut self) -> io::Result<()> {
        let end = self.offset + self.buffer.len() as u64;
        let last = end - end % BLOCK;
        let is_new = last >= self.touched && last < end && last + BLOCK <= self.active.size;
        if is_new && !self.active.grows {
            self.active.file.write_at(&[0; BLOCK as usize], last)?;
        }
        self.touched = end.next_multiple_of(BLOCK);
        Ok(())
    }

    /// Whether the frame stands where it was to be written. It may although the write has failed half-way: what was not
    /// written is zeros, and what stood there before as well.
    fn is_whole(&self) -> io::Result<bool> {
        if let Some(direct) = &self.direct {
            return direct.holds(&self.buffer, self.offset);
        }
        let mut there = vec![0; self.buffer.len()];
        let read = self.active.file.read_at(&mut there, self.offset)?;
        Ok(there[..read] == self.buffer)
    }

    /// One write, one sync. Only after this may anybody hear of what is in the frame.
    pub(crate) fn commit(&mut self, stamp: u64) -> Result<(), Failed> {
        let seed = self.active.seed;
        let previous = self.previous;
        let checksum = frame::seal(&mut self.buffer, seed, self.offset, self.count, self.next_version, stamp, previous);
        match self.write() {
            Err(error) if is_full(&error) && self.is_whole().map_err(Failed::Sync)? => {}
            done => done.map_err(Failed::Write)?,
        }
        self.active.file.sync().map_err(Failed::Sync)?;
        if let Some(direct) = &mut self.direct {
            direct.advance(self.buffer.len(), self.offset);
        }
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

/// The disk does not write blocks past its cache, and says so late.
fn is_unable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

#[derive(Debug)]
pub(crate) enum Failed {
    /// Nothing was synced: if this was for want of room, the frame is no frame, and the place can be used again.
    Write(io::Error),
    /// Nobody knows what stays of it.
    Sync(io::Error),
}
