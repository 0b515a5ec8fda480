//! A disk in memory that remembers what was asked of it, and can say what a power cut might have left at any moment.
//!
//! The model: a write survives for certain once its file was synced after it; a name (created, renamed, removed) once
//! its directory was synced. Until then each 512-byte sector of a write, and each change of a name, may survive or not,
//! whatever came after it.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use super::{BLOCK, Disk, File, Held, Mode};

const SECTOR: usize = 512;

#[derive(Clone, Debug)]
pub enum Op {
    Write {
        file: usize,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    Sync {
        file: usize,
    },
    Name {
        path: PathBuf,
        file: usize,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        file: usize,
    },
    Remove {
        path: PathBuf,
    },
    SyncDir {
        dir: PathBuf,
    },
    /// Set by the test: what it had been promised by then.
    Note(u64),
}

/// The files of a disk, by name.
#[derive(Clone, Debug, Default)]
pub struct Image {
    names: BTreeMap<PathBuf, usize>,
    files: Vec<Arc<Vec<u8>>>,
}

impl Image {
    #[must_use]
    pub fn names(&self) -> Vec<PathBuf> {
        self.names.keys().cloned().collect()
    }

    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<&[u8]> {
        self.files.get(*self.names.get(path)?).map(|bytes| bytes.as_slice())
    }

    /// Changes a file behind everybody's back.
    pub fn edit(&mut self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(&file) = self.names.get(path)
            && let Some(bytes) = self.files.get_mut(file)
        {
            change(Arc::make_mut(bytes));
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write { file, offset, bytes } => self.write(*file, *offset, bytes),
            Op::Name { path, file } => {
                self.file(*file);
                self.names.insert(path.clone(), *file);
            }
            Op::Rename { from, to, file } => {
                self.file(*file);
                if self.names.get(from) == Some(file) {
                    self.names.remove(from);
                }
                self.names.insert(to.clone(), *file);
            }
            Op::Remove { path } => {
                self.names.remove(path);
            }
            Op::Sync { .. } | Op::SyncDir { .. } | Op::Note(_) => {}
        }
    }

    fn file(&mut self, file: usize) {
        if self.files.len() <= file {
            self.files.resize(file + 1, Arc::default());
        }
    }

    fn write(&mut self, file: usize, offset: u64, bytes: &[u8]) {
        self.file(file);
        let Ok(offset) = usize::try_from(offset) else { return };
        let held = Arc::make_mut(&mut self.files[file]);
        if held.len() < offset + bytes.len() {
            held.resize(offset + bytes.len(), 0);
        }
        held[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

/// Walks through a recorded history and hands out what a power cut could have left behind.
#[derive(Debug)]
pub struct Survivors {
    durable: Image,
    /// Not yet synced, in the order they were asked for.
    pending: Vec<Op>,
    notes: Vec<u64>,
}

impl Survivors {
    #[must_use]
    pub fn new(base: Image) -> Self {
        Self { durable: base, pending: Vec::new(), notes: Vec::new() }
    }

    /// The promises made up to here.
    #[must_use]
    pub fn notes(&self) -> &[u64] {
        &self.notes
    }

    pub fn advance(&mut self, op: &Op) {
        match op {
            Op::Note(note) => self.notes.push(*note),
            Op::Write { .. } | Op::Name { .. } | Op::Rename { .. } | Op::Remove { .. } => self.pending.push(op.clone()),
            Op::Sync { file: synced } => {
                self.settle(|op| matches!(op, Op::Write { file, .. } if file == synced));
            }
            Op::SyncDir { dir } => self.settle(|op| match op {
                Op::Name { path, .. } | Op::Remove { path } => path.parent() == Some(dir),
                Op::Rename { to, .. } => to.parent() == Some(dir),
                Op::Write { .. } | Op::Sync { .. } | Op::SyncDir { .. } | Op::Note(_) => false,
            }),
        }
    }

    fn settle(&mut self, settled: impl Fn(&Op) -> bool) {
        let durable = &mut self.durable;
        self.pending.retain(|op| {
            let done = settled(op);
            if done {
                durable.apply(op);
            }
            !done
        });
    }

    /// One image; `random` gives numbers below its argument.
    pub fn image(&self, random: &mut dyn FnMut(u64) -> u64) -> Image {
        let mut image = self.durable.clone();
        // Now and then everything survives, or nothing, or all of it up to some moment: the commonest accidents.
        let style = random(8);
        let cut = random(self.pending.len() as u64 + 1);
        for (at, op) in self.pending.iter().enumerate() {
            match style {
                0 => image.apply(op),
                1 => {}
                2 if (at as u64) < cut => image.apply(op),
                2 if at as u64 > cut => {}
                _ => match op {
                    Op::Write { file, offset, bytes } => tear(&mut image, *file, *offset, bytes, random),
                    Op::Name { .. } | Op::Rename { .. } | Op::Remove { .. } => {
                        if random(2) == 0 {
                            image.apply(op);
                        }
                    }
                    Op::Sync { .. } | Op::SyncDir { .. } | Op::Note(_) => {}
                },
            }
        }
        image
    }
}

fn tear(image: &mut Image, file: usize, offset: u64, bytes: &[u8], random: &mut dyn FnMut(u64) -> u64) {
    let style = random(6);
    let mut at = 0;
    let mut sector = 0;
    let cut = random((bytes.len() / SECTOR) as u64 + 2);
    while at < bytes.len() {
        let room = SECTOR - ((offset as usize + at) % SECTOR);
        let end = (at + room).min(bytes.len());
        let survives = match style {
            0 => true,
            1 => false,
            2 => sector < cut,
            3 => sector != cut,
            _ => random(2) == 0,
        };
        if survives {
            image.write(file, offset + at as u64, &bytes[at..end]);
        }
        at = end;
        sector += 1;
    }
}

/// Whether this disk writes blocks past its cache ([`Mode::Direct`]), or when it says that it does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DirectWrites {
    #[default]
    Can,
    CannotOpen,
    CannotWrite,
    /// So many of them, and then no more.
    CanSoMany(u32),
}

#[derive(Debug, Default)]
struct State {
    now: Image,
    trace: Vec<Op>,
    locked: Arc<AtomicBool>,
    untraced: bool,
    direct: DirectWrites,
}

impl State {
    fn record(&mut self, op: Op) {
        self.now.apply(&op);
        if !self.untraced {
            self.trace.push(op);
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RecordingDisk {
    state: Arc<Mutex<State>>,
}

impl RecordingDisk {
    #[must_use]
    pub fn new(image: Image) -> Self {
        Self { state: Arc::new(Mutex::new(State { now: image, ..State::default() })) }
    }

    /// Only the files, without their history: for long runs.
    #[must_use]
    pub fn untraced() -> Self {
        Self::unrecorded(Image::default())
    }

    /// The same, from what is there.
    #[must_use]
    pub fn unrecorded(image: Image) -> Self {
        Self { state: Arc::new(Mutex::new(State { now: image, untraced: true, ..State::default() })) }
    }

    #[must_use]
    pub fn direct_writes(self, direct: DirectWrites) -> Self {
        self.state.lock().direct = direct;
        self
    }

    /// Remembers a promise at this place of the history.
    pub fn note(&self, note: u64) {
        self.state.lock().record(Op::Note(note));
    }

    #[must_use]
    pub fn trace(&self) -> Vec<Op> {
        self.state.lock().trace.clone()
    }

    /// The files as a reader sees them now, synced or not.
    #[must_use]
    pub fn image(&self) -> Image {
        self.state.lock().now.clone()
    }

    /// As if the process had been killed: the lock is free, the page cache stays.
    pub fn forget_lock(&self) {
        self.state.lock().locked = Arc::default();
    }
}

impl Disk for RecordingDisk {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        let inside = state.now.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        if mode == Mode::Direct && state.direct == DirectWrites::CannotOpen {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let file = match mode {
            Mode::Create | Mode::Prepare => {
                let file = state.now.files.len();
                let op = Op::Name { path: path.to_owned(), file };
                state.record(op);
                file
            }
            Mode::Read | Mode::Write | Mode::Direct => *state.now.names.get(path).ok_or(io::ErrorKind::NotFound)?,
        };
        Ok(Arc::new(RecordedFile { state: self.state.clone(), file, mode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let file = *state.now.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        let op = Op::Rename { from: from.to_owned(), to: to.to_owned(), file };
        state.record(op);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.now.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let op = Op::Remove { path: path.to_owned() };
        state.record(op);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.state.lock().record(Op::SyncDir { dir: dir.to_owned() });
        Ok(())
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn Held>> {
        let locked = self.state.lock().locked.clone();
        if locked.swap(true, Ordering::SeqCst) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(RecordedLock(locked)))
    }
}

#[derive(Debug)]
struct RecordedLock(Arc<AtomicBool>);

impl Held for RecordedLock {}

impl Drop for RecordedLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct RecordedFile {
    state: Arc<Mutex<State>>,
    file: usize,
    mode: Mode,
}

impl RecordedFile {
    /// As strict as a file system that writes past its cache.
    fn takes(&self, bytes: &[u8], offset: u64, direct: &mut DirectWrites) -> bool {
        let in_units_of = |unit: u64| (offset | bytes.len() as u64).is_multiple_of(unit);
        match self.mode {
            Mode::Read | Mode::Write | Mode::Create => true,
            Mode::Prepare => in_units_of(BLOCK),
            Mode::Direct => {
                let can = match direct {
                    DirectWrites::Can => true,
                    DirectWrites::CannotOpen | DirectWrites::CannotWrite | DirectWrites::CanSoMany(0) => false,
                    DirectWrites::CanSoMany(left) => {
                        *left -= 1;
                        true
                    }
                };
                // Of a write that is broken off any number of sectors may be there.
                can && in_units_of(SECTOR as u64) && bytes.as_ptr().addr().is_multiple_of(BLOCK as usize)
            }
        }
    }
}

impl File for RecordedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state.lock();
        let bytes = &state.now.files[self.file];
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let read = buffer.len().min(bytes.len() - start);
        buffer[..read].copy_from_slice(&bytes[start..start + read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        if !self.takes(bytes, offset, &mut state.direct) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is written in whole blocks only"));
        }
        let op = Op::Write { file: self.file, offset, bytes: bytes.into() };
        state.record(op);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.state.lock().record(Op::Sync { file: self.file });
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.state.lock().now.files[self.file].len() as u64)
    }
}
