//! A small scheduler: of all that could go on, one thing goes on at a time, and a seed says which.
//!
//! The writer, the keeper and a reader of the feed are threads that stop at every read, write, sync and answer they give, and
//! go on when they are told to. Callers are futures, polled only if somebody has woken them.

#![allow(dead_code, unreachable_pub, reason = "support of one test")]

use std::{
    cell::RefCell,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Wake,
    thread::JoinHandle,
};

use hapax_ledger::disk::{Disk, File, Held, Mode, RecordingDisk};
use parking_lot::{Condvar, Mutex};

/// Whose turn it is in the dealings of the scheduler with one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Scheduler,
    Thread,
    Over,
}

#[derive(Debug)]
pub struct Baton {
    turn: Mutex<Turn>,
    passed: Condvar,
}

thread_local! {
    static MINE: RefCell<Option<Arc<Baton>>> = const { RefCell::new(None) };
}

impl Baton {
    fn pass(&self, to: Turn) {
        *self.turn.lock() = to;
        self.passed.notify_all();
    }

    fn wait_for_thread_turn(&self) {
        let mut turn = self.turn.lock();
        while *turn != Turn::Thread {
            self.passed.wait(&mut turn);
        }
    }

    fn wait_for_scheduler_turn(&self) -> bool {
        let mut turn = self.turn.lock();
        while *turn == Turn::Thread {
            self.passed.wait(&mut turn);
        }
        *turn != Turn::Over
    }
}

/// Others may go on before this thread does. Nothing on threads that are not scheduled.
pub fn point() {
    let mine = MINE.with(|mine| mine.borrow().clone());
    if let Some(baton) = mine {
        baton.pass(Turn::Scheduler);
        baton.wait_for_thread_turn();
    }
}

#[derive(Debug)]
pub struct Actor {
    baton: Arc<Baton>,
    thread: Option<JoinHandle<()>>,
    pub over: bool,
}

impl Actor {
    pub fn start(run: impl FnOnce() + Send + 'static) -> Self {
        let baton = Arc::new(Baton { turn: Mutex::new(Turn::Scheduler), passed: Condvar::new() });
        let mine = baton.clone();
        let thread = std::thread::spawn(move || {
            MINE.with(|cell| *cell.borrow_mut() = Some(mine.clone()));
            mine.wait_for_thread_turn();
            // A panic must not leave the scheduler waiting.
            let _over = Over(mine);
            run();
        });
        Self { baton, thread: Some(thread), over: false }
    }

    /// Up to its next point.
    pub fn step(&mut self) {
        if !self.over {
            self.baton.pass(Turn::Thread);
            self.over = !self.baton.wait_for_scheduler_turn();
        }
    }

    pub fn finish(mut self) {
        while !self.over {
            self.step();
        }
        self.thread.take().unwrap().join().unwrap();
    }
}

struct Over(Arc<Baton>);

impl Drop for Over {
    fn drop(&mut self) {
        MINE.with(|cell| *cell.borrow_mut() = None);
        self.0.pass(Turn::Over);
    }
}

/// Wakes a caller, and lets others go on right after that.
#[derive(Debug, Default)]
pub struct Woken(pub AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        point();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The write fails for want of room.
    Full,
    Write,
    /// The sync fails, and nothing was synced.
    Sync,
    /// The sync fails, although all was synced.
    SyncedAllTheSame,
}

#[derive(Debug, Default)]
pub struct Plan {
    /// The highest version whose frame is durable.
    pub durable: AtomicU64,
    /// At the writer's n-th frame.
    pub trouble: Mutex<Option<(u64, Trouble)>>,
    frames: AtomicU64,
    /// Of the log, through whichever file: one is written past the cache and synced by the other.
    written: AtomicU64,
    failing: Mutex<Option<Trouble>>,
}

/// A disk with a point at every read, write and sync, which knows up to which version the log is durable.
#[derive(Clone, Debug)]
pub struct PointedDisk {
    pub inner: RecordingDisk,
    pub plan: Arc<Plan>,
}

#[derive(Debug)]
struct PointedFile {
    inner: Arc<dyn File>,
    is_segment: bool,
    plan: Arc<Plan>,
}

impl Disk for PointedDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(PointedFile {
            inner: self.inner.open(path, mode)?,
            is_segment: path.extension().is_some_and(|end| end == "seg"),
            plan: self.plan.clone(),
        }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Held>> {
        self.inner.lock(path)
    }
}

fn number(frame: &[u8], at: usize) -> u32 {
    frame.get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
}

/// Where the frame is that this writes: behind what is written again of the block that it begins in.
fn written_frame(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let start = (0..bytes.len()).step_by(8).rfind(|at| bytes[*at..].starts_with(b"HXF1"))?;
    Some(start..start + number(bytes, start + 8) as usize)
}

/// The last fresh version of a frame; 0 if there is none in it.
fn last_version(frame: &[u8]) -> u64 {
    let number = |at| number(frame, at);
    let mut at = 40;
    let mut last = 0;
    while at + 24 <= frame.len() && number(at) > 0 {
        if frame[at + 8] & 128 == 0 {
            last = u64::from_le_bytes(frame[at + 16..at + 24].try_into().unwrap());
        }
        at += number(at) as usize;
    }
    last
}

impl File for PointedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        point();
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        point();
        if let Some(place) = written_frame(bytes).filter(|_| self.is_segment) {
            let (plan, frame) = (&self.plan, &bytes[place.clone()]);
            let nth = plan.frames.fetch_add(1, Ordering::SeqCst) + 1;
            let due = plan.trouble.lock().take_if(|(at, _)| *at == nth).map(|(_, trouble)| trouble);
            match due {
                Some(Trouble::Full) => {
                    self.inner.write_at(&bytes[..bytes.len() / 2], offset)?;
                    // The other half may be zeros, as what stood there before.
                    let mut there = vec![0; frame.len()];
                    let read = self.inner.read_at(&mut there, offset + place.start as u64)?;
                    if read == frame.len() && there == frame {
                        plan.written.fetch_max(last_version(frame), Ordering::SeqCst);
                    }
                    return Err(io::ErrorKind::StorageFull.into());
                }
                Some(Trouble::Write) => return Err(io::ErrorKind::Other.into()),
                Some(later @ (Trouble::Sync | Trouble::SyncedAllTheSame)) => *plan.failing.lock() = Some(later),
                None => {}
            }
            plan.written.fetch_max(last_version(frame), Ordering::SeqCst);
        }
        self.inner.write_at(bytes, offset)?;
        point();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        point();
        if !self.is_segment {
            return self.inner.sync();
        }
        match self.plan.failing.lock().take() {
            Some(Trouble::Sync) => return Err(io::ErrorKind::Other.into()),
            Some(Trouble::SyncedAllTheSame) => {
                self.inner.sync()?;
                return Err(io::ErrorKind::Other.into());
            }
            Some(Trouble::Full | Trouble::Write) | None => {}
        }
        self.inner.sync()?;
        self.plan.durable.fetch_max(self.plan.written.load(Ordering::SeqCst), Ordering::SeqCst);
        point();
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
}
