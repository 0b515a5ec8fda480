//! The log: segments in a row, one of them active, the next one ready.
//!
//! Files come and go here, and the directory is synced each time. Numbers are consecutive and never used twice; the
//! oldest segment goes first, one at a time.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use crate::{
    disk::{BLOCK, Blocks, Disk, File, Mode},
    frame::Seed,
    options::Options,
    segment::{self, Segment},
};

/// A file of already written blocks that waits for a number.
const SPARE: &str = "spare";
/// How much is zeroed between two syncs, so that zeroing never stands long in the way of the writer's own sync.
const ZEROED_AT_ONCE: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) dir: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) store: [u8; 16],
    first_segment_bytes: u64,
    pub(crate) segment_bytes: u64,
    segments: RwLock<BTreeMap<u32, Arc<Segment>>>,
    next: Mutex<Next>,
    /// There is no room on the disk for another segment.
    tight: AtomicBool,
}

#[derive(Debug, Default)]
struct Next {
    /// The highest number that is taken.
    newest: u32,
    ready: Option<Arc<Segment>>,
    /// Sizes of the files that wait for a number.
    spares: Vec<(String, u64)>,
    spare_names: u32,
}

impl Log {
    pub(crate) fn new(options: &Options, store: [u8; 16]) -> Self {
        Self {
            dir: options.path.clone(),
            disk: options.disk.clone(),
            store,
            first_segment_bytes: options.first_segment_bytes,
            segment_bytes: options.segment_bytes,
            segments: RwLock::default(),
            next: Mutex::default(),
            tight: AtomicBool::new(false),
        }
    }

    pub(crate) fn seed(&self, number: u32) -> Seed {
        Seed::new(&self.store, number)
    }

    pub(crate) fn segment(&self, number: u32) -> Option<Arc<Segment>> {
        self.segments.read().get(&number).cloned()
    }

    pub(crate) fn oldest(&self) -> Option<Arc<Segment>> {
        self.segments.read().values().next().cloned()
    }

    /// This one, or else the next there is.
    pub(crate) fn first_from(&self, number: u32) -> Option<Arc<Segment>> {
        self.segments.read().range(number..).next().map(|(_, segment)| segment.clone())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        self.segments.read().values().cloned().collect()
    }

    pub(crate) fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Acquire)
    }

    /// The bytes of all files of the log.
    pub(crate) fn bytes(&self) -> u64 {
        let spares: u64 = self.next.lock().spares.iter().map(|(_, size)| size).sum();
        spares + self.segments.read().values().map(|segment| segment.size.max(segment.end())).sum::<u64>()
    }

    /// For recovery.
    pub(crate) fn adopt(&self, segment: Arc<Segment>, ready: bool) {
        let mut next = self.next.lock();
        next.newest = next.newest.max(segment.number);
        if ready {
            next.ready = Some(segment.clone());
        }
        self.segments.write().insert(segment.number, segment);
    }

    pub(crate) fn adopt_spare(&self, name: String, size: u64) {
        self.next.lock().spares.push((name, size));
    }

    pub(crate) fn is_spare(name: &str) -> bool {
        name.starts_with(SPARE) && !name.ends_with(".tmp")
    }

    /// The segment to go on in. It does not wait until one is ready: then it starts one that grows as it is written.
    pub(crate) fn roll(&self) -> io::Result<Arc<Segment>> {
        let mut next = self.next.lock();
        if let Some(ready) = next.ready.take() {
            return Ok(ready);
        }
        let number = next.newest + 1;
        let file = self.disk.open(&self.dir.join(segment::name(number)), Mode::Create)?;
        self.disk.sync_dir(&self.dir)?;
        let segment = Arc::new(Segment::new(number, file, self.segment_bytes, self.seed(number)).growing());
        next.newest = number;
        self.segments.write().insert(number, segment.clone());
        Ok(segment)
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.next.lock().ready.is_some()
    }

    /// Makes the next segment ready, from a spare if there is one. In the background: zeroing takes its time.
    pub(crate) fn make_ready(&self) -> io::Result<()> {
        let done = self.try_make_ready();
        match &done {
            Ok(()) => self.tight.store(false, Ordering::Release),
            Err(error) if is_full(error) => self.tight.store(true, Ordering::Release),
            Err(_) => {}
        }
        done
    }

    fn try_make_ready(&self) -> io::Result<()> {
        if self.has_ready() {
            return Ok(());
        }
        if self.next.lock().spares.is_empty() {
            self.make_spare(self.next_size())?;
        }
        let mut next = self.next.lock();
        let Some((name, size)) = next.spares.pop() else { return Ok(()) };
        let number = next.newest + 1;
        let path = self.dir.join(segment::name(number));
        self.disk.rename(&self.dir.join(&name), &path)?;
        self.disk.sync_dir(&self.dir)?;
        let file = self.disk.open(&path, Mode::Write)?;
        let segment = Arc::new(Segment::new(number, file, size, self.seed(number)));
        next.newest = number;
        next.ready = Some(segment.clone());
        self.segments.write().insert(number, segment);
        Ok(())
    }

    /// Twice as large as the newest. That one may have been growing when its process was killed, and be as small as the
    /// few frames it holds: the next one is none the smaller for it, and ends with a block all the same.
    fn next_size(&self) -> u64 {
        let newest = self.segments.read().values().next_back().map_or(0, |segment| segment.size);
        (newest * 2).next_multiple_of(BLOCK).clamp(self.first_segment_bytes, self.segment_bytes)
    }

    /// Writes a file of zeros. Blocks that were written before sync much faster than fresh ones.
    pub(crate) fn make_spare(&self, size: u64) -> io::Result<()> {
        let name = self.spare_name();
        let passing = self.dir.join(format!("{name}.tmp"));
        let zeroed = |mode: Mode| zero(&*self.disk.open(&passing, mode)?, size);
        // What is only there to save time must not be what the ledger fails by.
        let unfit = |error: &io::Error| error.kind() == io::ErrorKind::InvalidInput;
        let done = zeroed(Mode::Prepare).or_else(|error| if unfit(&error) { zeroed(Mode::Create) } else { Err(error) });
        if let Err(error) = done {
            // Room that half a spare takes is missing elsewhere.
            let _ = self.disk.remove(&passing);
            return Err(error);
        }
        self.disk.rename(&passing, &self.dir.join(&name))?;
        self.next.lock().spares.push((name, size));
        Ok(())
    }

    fn spare_name(&self) -> String {
        let mut next = self.next.lock();
        next.spare_names += 1;
        format!("{SPARE}-{}-{}", next.newest, next.spare_names)
    }

    /// Gives the oldest segment back: as a spare if one is wanted, else to the file system. Nothing names it any more.
    pub(crate) fn retire(&self, segment: &Segment) -> io::Result<()> {
        let hint = self.dir.join(segment::hint_name(segment.number));
        match self.disk.remove(&hint) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let path = self.dir.join(segment::name(segment.number));
        let wanted = segment.size == self.segment_bytes
            && segment.file.length()? == segment.size
            && self.next.lock().spares.is_empty();
        if wanted {
            let name = self.spare_name();
            self.disk.rename(&path, &self.dir.join(&name))?;
            self.next.lock().spares.push((name, segment.size));
        } else {
            self.disk.remove(&path)?;
        }
        self.disk.sync_dir(&self.dir)?;
        self.segments.write().remove(&segment.number);
        Ok(())
    }
}

fn zero(file: &dyn File, size: u64) -> io::Result<()> {
    let most = ZEROED_AT_ONCE.min(size as usize);
    let zeros = Blocks::new(most);
    let mut at = 0;
    while at < size {
        let length = (size - at).min(most as u64);
        file.write_at(zeros.first(length as usize), at)?;
        file.sync()?;
        at += length;
    }
    Ok(())
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
