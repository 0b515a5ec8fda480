//! The end of a segment, written in whole blocks and past the memory that the system keeps of files.
//!
//! A frame ends anywhere, so the block it ends in is written again with the next one: what is durable of it as it was, then the frame,
//! then zeros. The system would do the same from its own copy of the block, after having made one, and written it back for a sync.

use std::{io, sync::Arc};

use crate::{
    disk::{BLOCK, Blocks, File, Mode},
    log::Log,
    segment::{self, Segment},
};

/// Room for a usual frame stays; what a long one took is let go.
const KEPT: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Direct {
    file: Arc<dyn File>,
    /// Begins with what is durable of the block that the next frame begins in.
    blocks: Blocks,
}

impl Direct {
    /// None where this cannot be had: not every disk can do it, and a segment that grows has no blocks to write over.
    pub(crate) fn of(log: &Log, segment: &Segment) -> Option<Self> {
        if segment.grows || !segment.size.is_multiple_of(BLOCK) {
            return None;
        }
        let file = log.disk.open(&log.dir.join(segment::name(segment.number)), Mode::Direct).ok()?;
        let (mut blocks, end) = (Blocks::new(KEPT), segment.end());
        let durable = segment.read(end - end % BLOCK, (end % BLOCK) as usize).ok()?;
        // What is missing here would be written over.
        if durable.len() as u64 != end % BLOCK {
            return None;
        }
        blocks.first_mut(durable.len()).copy_from_slice(&durable);
        Some(Self { file, blocks })
    }

    pub(crate) fn write(&mut self, frame: &[u8], offset: u64) -> io::Result<()> {
        let from = (offset % BLOCK) as usize;
        let to = from + frame.len();
        let whole = to.next_multiple_of(BLOCK as usize);
        self.make_room(whole, from);
        let blocks = self.blocks.first_mut(whole);
        blocks[from..to].copy_from_slice(frame);
        blocks[to..].fill(0);
        self.file.write_at(blocks, offset - from as u64)
    }

    /// Whether it stands there, on the disk: after a write that has failed, the system's own copy may be from before.
    pub(crate) fn holds(&self, frame: &[u8], offset: u64) -> io::Result<bool> {
        let from = (offset % BLOCK) as usize;
        let mut there = Blocks::new((from + frame.len()).next_multiple_of(BLOCK as usize));
        let room = there.room();
        let read = self.file.read_at(there.first_mut(room), offset - from as u64)?;
        Ok(there.first(read).get(from..from + frame.len()) == Some(frame))
    }

    /// What was written up to here is durable.
    pub(crate) fn advance(&mut self, frame: usize, offset: u64) {
        let to = (offset % BLOCK) as usize + frame;
        let last = to - to % BLOCK as usize;
        self.blocks.first_mut(to).copy_within(last.., 0);
        if self.blocks.room() > KEPT {
            self.replace(KEPT, to - last);
        }
    }

    fn make_room(&mut self, wanted: usize, kept: usize) {
        if self.blocks.room() < wanted {
            self.replace(wanted, kept);
        }
    }

    fn replace(&mut self, room: usize, kept: usize) {
        let mut blocks = Blocks::new(room);
        blocks.first_mut(kept).copy_from_slice(self.blocks.first(kept));
        self.blocks = blocks;
    }
}
