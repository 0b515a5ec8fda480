//! Everything the ledger asks of a disk, in one small trait, so that tests can crash, tear, reorder, fail and flip it.

mod faulty;
mod real;
mod recording;

use std::{fmt, io, path::Path, sync::Arc};

pub use faulty::{Fault, FaultyDisk, Flip};
pub use real::RealDisk;
pub use recording::{DirectWrites, Image, Op, RecordingDisk, Survivors};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Read,
    /// To read and to write a file that is there.
    Write,
    /// A new file; one of this name is replaced by an empty one.
    Create,
    /// The same, for what nobody reads soon: it need not be kept in memory. Written in whole blocks, from memory that
    /// begins at one ([`Blocks`]).
    Prepare,
    /// To write whole blocks of a file that is there, past the memory that the system keeps of it, from memory that begins at
    /// a block. Who reads it by another mode sees what was written. Not every disk can do that: it fails here, or with
    /// `InvalidInput` or `Unsupported` when it is first written to.
    Direct,
}

/// What file systems keep, read and write as a whole.
pub(crate) const BLOCK: u64 = 4096;

/// Memory that begins at a block, for [`Mode::Prepare`] and [`Mode::Direct`]. It begins as zeros.
#[derive(Debug)]
pub(crate) struct Blocks {
    bytes: Vec<u8>,
    from: usize,
}

impl Blocks {
    pub(crate) fn new(length: usize) -> Self {
        let bytes = vec![0; length + BLOCK as usize];
        let from = bytes.as_ptr().align_offset(BLOCK as usize);
        Self { bytes, from }
    }

    pub(crate) fn first(&self, length: usize) -> &[u8] {
        &self.bytes[self.from..][..length]
    }

    pub(crate) fn first_mut(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.from..][..length]
    }

    pub(crate) fn room(&self) -> usize {
        self.bytes.len().saturating_sub(BLOCK as usize)
    }
}

pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// With all its parents, and durable; harmless if it is there.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// After this, files that came to or went from `dir` stay so over a power cut.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Held until dropped; `WouldBlock` while somebody else holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Held>>;
}

pub trait File: Send + Sync + fmt::Debug {
    /// Reads until the buffer is full or the file ends, and says how much it read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// The same, if nobody has to wait for a disk. `None`: somebody would.
    fn read_at_once(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, offset).map(Some)
    }
    /// Writes all of it or fails.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// After this, what was written stays written over a power cut.
    fn sync(&self) -> io::Result<()>;
    fn length(&self) -> io::Result<u64>;
}

/// A lock on a directory.
pub trait Held: Send + Sync + fmt::Debug {}

/// Reads a whole file, or as much as `limit` allows.
pub(crate) fn read_all(file: &dyn File, limit: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.length()?.min(limit)).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; length];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Puts a small file in place whole or not at all. The caller syncs the directory.
pub(crate) fn write_whole(disk: &dyn Disk, dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let passing = dir.join(format!("{name}.tmp"));
    let file = disk.open(&passing, Mode::Create)?;
    let done = file.write_at(bytes, 0).and_then(|()| file.sync()).and_then(|()| disk.rename(&passing, &dir.join(name)));
    if done.is_err() {
        drop(file);
        // Room that half a file takes is missing elsewhere.
        let _ = disk.remove(&passing);
    }
    done
}
