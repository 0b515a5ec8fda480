//! A disk that fails where it is told to.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::{Disk, File, Held, Mode};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing happens but the error.
    Before(io::ErrorKind),
    /// It is done, and reported as failed: the cruellest one.
    After(io::ErrorKind),
    /// A write stops half way; other calls fail before they happen.
    Torn(io::ErrorKind),
}

/// A bit that reads wrong.
#[derive(Clone, Debug)]
pub struct Flip {
    pub path: PathBuf,
    pub offset: u64,
    pub mask: u8,
}

#[derive(Debug, Default)]
struct Plan {
    calls: AtomicU64,
    fault: Mutex<Option<(u64, Fault)>>,
    flips: Mutex<Vec<Flip>>,
    /// How much may still be written to fresh space; `None`: as much as one likes.
    room: Mutex<Option<u64>>,
    refuse_writes: Mutex<Option<io::ErrorKind>>,
}

/// Wraps another disk. All clones share one plan.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    plan: Arc<Plan>,
}

impl FaultyDisk {
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>) -> Self {
        Self { inner, plan: Arc::default() }
    }

    /// How often it was asked for something that can fail.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.plan.calls.load(Ordering::SeqCst)
    }

    /// The `nth` call from now on, counted from one, meets this fault.
    pub fn fail(&self, nth: u64, fault: Fault) {
        *self.plan.fault.lock() = Some((self.calls() + nth, fault));
    }

    pub fn flip(&self, flip: Flip) {
        self.plan.flips.lock().push(flip);
    }

    /// So many more bytes fit on the disk.
    pub fn leave_room(&self, bytes: Option<u64>) {
        *self.plan.room.lock() = bytes;
    }

    /// Everything that would change the disk is refused.
    pub fn read_only(&self, kind: Option<io::ErrorKind>) {
        *self.plan.refuse_writes.lock() = kind;
    }

    fn call<T>(&self, writes: bool, act: impl FnOnce(&dyn Disk) -> io::Result<T>) -> io::Result<T> {
        self.plan.call(writes, || act(&*self.inner))
    }
}

impl Plan {
    fn call<T>(&self, writes: bool, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if let Some(kind) = *self.refuse_writes.lock()
            && writes
        {
            return Err(kind.into());
        }
        match self.due() {
            None => act(),
            Some(Fault::Before(kind) | Fault::Torn(kind)) => Err(kind.into()),
            Some(Fault::After(kind)) => act().and(Err(kind.into())),
        }
    }

    fn due(&self) -> Option<Fault> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let mut fault = self.fault.lock();
        let due = fault.filter(|(at, _)| *at == call).map(|(_, fault)| fault);
        if due.is_some() {
            *fault = None;
        }
        due
    }

    fn take_room(&self, grows_by: u64) -> io::Result<()> {
        let mut room = self.room.lock();
        match *room {
            Some(left) if left < grows_by => Err(io::ErrorKind::StorageFull.into()),
            Some(left) => {
                *room = Some(left - grows_by);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Disk for FaultyDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.call(false, |disk| disk.create_dir(dir))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.call(false, |disk| disk.list(dir))
    }

    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let inner = self.call(mode != Mode::Read, |disk| disk.open(path, mode))?;
        Ok(Arc::new(FaultyFile { inner, path: path.to_owned(), plan: self.plan.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(true, |disk| disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let freed = self.inner.open(path, Mode::Read).and_then(|file| file.length()).unwrap_or(0);
        self.call(true, |disk| disk.remove(path))?;
        if let Some(room) = self.plan.room.lock().as_mut() {
            *room += freed;
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call(true, |disk| disk.sync_dir(dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Held>> {
        self.call(true, |disk| disk.lock(path))
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn File>,
    path: PathBuf,
    plan: Arc<Plan>,
}

impl File for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.plan.call(false, || self.inner.read_at(buffer, offset))?;
        for flip in self.plan.flips.lock().iter().filter(|flip| flip.path == self.path) {
            if let Some(at) = flip.offset.checked_sub(offset)
                && at < read as u64
            {
                buffer[at as usize] ^= flip.mask;
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Some(kind) = *self.plan.refuse_writes.lock() {
            return Err(kind.into());
        }
        let grows_by = (offset + bytes.len() as u64).saturating_sub(self.inner.length()?);
        self.plan.take_room(grows_by)?;
        match self.plan.due() {
            None => self.inner.write_at(bytes, offset),
            Some(Fault::Before(kind)) => Err(kind.into()),
            Some(Fault::After(kind)) => self.inner.write_at(bytes, offset).and(Err(kind.into())),
            Some(Fault::Torn(kind)) => {
                self.inner.write_at(&bytes[..bytes.len() / 2], offset)?;
                Err(kind.into())
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.plan.call(true, || self.inner.sync())
    }

    fn length(&self) -> io::Result<u64> {
        self.plan.call(false, || self.inner.length())
    }
}
