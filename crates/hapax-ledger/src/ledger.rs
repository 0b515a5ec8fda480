use std::{
    fmt, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use bytes::Bytes;
use hapax_core::{Id, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyId, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, StoreError,
    Swap, Usage, Watch,
};
use parking_lot::Mutex;

use crate::{
    append::{Appender, Failed, Start},
    bodies::{self, Bodies},
    books::Count,
    clock::{KEPT_WITHIN, StoreTime},
    disk::Held,
    entry,
    error::OpenError,
    feed,
    frame::HEADER,
    index::{Live, PASSED_ON},
    keeper::Keeper,
    letterbox::Caller,
    lock,
    log::is_full,
    options::Options,
    poison::Poison,
    queue::Queue,
    recover::{self, Recovered},
    scan::{self, Runs},
    shared::{Counters, NotAtOnce, Reply, Request, Shared, SwapRequest},
    shelf::Shelf,
    stepper::Stepper,
    watchers::Watchers,
    writer::Writer,
};

/// The embedded durable store: one append-only log in a directory of its own.
///
/// Closed when dropped: what was handed in is finished first.
pub struct Ledger {
    shared: Arc<Shared>,
    runs: Arc<Runs>,
    recovered: Recovered,
    shelf: Shelf,
    threads: Mutex<Option<Threads>>,
    /// Given back last.
    _lock: Box<dyn Held>,
}

struct Threads {
    closed: Arc<AtomicBool>,
    writer: JoinHandle<()>,
    keeper: JoinHandle<()>,
}

/// What a ledger holds and has done since it was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Status {
    /// Index entries: records, and versions of what is gone that are still remembered.
    pub slots: u64,
    pub index_bytes: u64,
    /// Unexpired records and remembered removals, as they lie on disk.
    pub needed_bytes: u64,
    /// All files of the log.
    pub log_bytes: u64,
    /// Batches written, each with one sync.
    pub frames: u64,
    pub writes: u64,
    /// Entries that were rewritten to free the oldest segments.
    pub carried: u64,
    /// Segments that were given back.
    pub retired: u64,
    /// Steps of the wall clock, which were not followed.
    pub clock_steps: u64,
    /// The disk is full: only attempts under way may write.
    pub tight: bool,
    /// Why nothing is answered any more.
    pub poisoned: Option<String>,
}

impl Ledger {
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        Self::open_with(Options::new(path))
    }

    pub fn open_with(options: Options) -> Result<Self, OpenError> {
        let path = options.path.clone();
        let (mut ledger, writer, keeper) = Self::assemble(&options)?;
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(name.into()).spawn(run).map_err(OpenError::io(&path, "start a thread"))
        };
        let closed = Arc::new(AtomicBool::new(false));
        let is_closed = closed.clone();
        let keeper = spawn("hapax-keeper", Box::new(move || keeper.run(|| is_closed.load(Ordering::Acquire))))?;
        let wake = keeper.thread().clone();
        let writer = spawn("hapax-writer", Box::new(move || writer.run(|| wake.unpark())));
        match writer {
            Ok(writer) => *ledger.threads.get_mut() = Some(Threads { closed, writer, keeper }),
            Err(error) => {
                closed.store(true, Ordering::Release);
                return Err(error);
            }
        }
        ledger.shelf = Shelf::start(ledger.shared.clone()).map_err(OpenError::io(&path, "start a thread"))?;
        Ok(ledger)
    }

    /// Without threads: nothing happens until the stepper is told to. For tests that replay one history exactly.
    #[doc(hidden)]
    pub fn open_stepped(options: Options) -> Result<(Self, Stepper), OpenError> {
        let (ledger, writer, keeper) = Self::assemble(&options)?;
        Ok((ledger, Stepper::new(writer, keeper)))
    }

    fn assemble(options: &Options) -> Result<(Self, Writer, Keeper), OpenError> {
        let dir = options.path.as_path();
        options.disk.create_dir(dir).map_err(OpenError::io(dir, "create it"))?;
        let lock = lock::take(&*options.disk, dir, options.lock_wait)?;
        let opened = recover::open(options)?;
        let name = format!("file:{}", dir.display());
        let bodies = Bodies::open(options.disk.clone(), dir.join(bodies::DIR), &opened.log.store, name.clone())
            .map_err(OpenError::io(dir, "open its bodies"))?;
        for _ in 0..options.spares {
            opened.log.make_spare(options.segment_bytes).map_err(OpenError::io(dir, "write a spare segment"))?;
        }
        let smallest = options.first_segment_bytes as usize - HEADER;
        let shared = Arc::new(Shared {
            name,
            log: opened.log.clone(),
            index: opened.index,
            time: opened.time,
            poison: Poison::default(),
            queue: Queue::new(options.most_queued),
            watchers: Arc::new(Watchers::default()),
            bodies,
            memory: options.removal_memory,
            most_entry: entry::MOST_BYTES.min(smallest),
            visible: AtomicU64::new(opened.tail.next_version - 1),
            counters: Counters::default(),
        });
        let mut appender = Appender::new(opened.log, opened.tail);
        keep_time(&mut appender, &shared.time).map_err(OpenError::io(dir, "write to the newest segment"))?;
        let writer = Writer::new(shared.clone(), appender);
        let keeper = Keeper::new(shared.clone());
        let ledger = Self {
            shelf: Shelf::inline(shared.clone()),
            shared,
            runs: Arc::default(),
            recovered: opened.recovered,
            threads: Mutex::new(None),
            _lock: lock,
        };
        Ok((ledger, writer, keeper))
    }

    /// What the start found.
    pub const fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    pub fn status(&self) -> Status {
        let shared = &self.shared;
        let counters = &shared.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Status {
            slots: shared.index.len() as u64,
            index_bytes: shared.index.bytes() as u64,
            needed_bytes: shared.index.books().needed(),
            log_bytes: shared.log.bytes(),
            frames: read(&counters.frames),
            writes: read(&counters.writes),
            carried: read(&counters.carried),
            retired: read(&counters.retired),
            clock_steps: shared.time.steps(),
            tight: shared.log.is_tight() || shared.bodies.is_tight(),
            poisoned: shared.poison.why().map(str::to_owned),
        }
    }

    /// Finishes what was handed in and stops. Dropping does the same. The time that was told until then is never told
    /// again by a later start.
    pub fn close(&self) {
        self.shelf.close();
        self.shared.queue.close();
        let threads = self.threads.lock().take();
        if let Some(Threads { closed, writer, keeper }) = threads {
            let _ = writer.join();
            closed.store(true, Ordering::Release);
            keeper.thread().unpark();
            let _ = keeper.join();
        }
    }

    /// What is no longer in memory is read by others: whoever asks may have more to do than to wait for a disk.
    async fn snapshot(&self, id: &Id) -> Result<Snapshot, StoreError> {
        match self.shared.snapshot_at_once(id) {
            Err(NotAtOnce::OnDisk) => {
                let id = *id;
                self.shelf.aside(move |shared| shared.snapshot(&id)).await
            }
            Err(NotAtOnce::Failed(error)) => Err(error),
            Ok(snapshot) => Ok(snapshot),
        }
    }

    async fn swap_it(&self, id: Id, expected: Version, next: Option<Arc<Live>>) -> Result<Swap, StoreError> {
        let shared = &*self.shared;
        shared.healthy()?;
        let key = shared.index.key(&id);
        // A conflict with what is durable can be told at once: no write under way could make it fit again.
        if shared.index.version(key).0 != expected {
            return self.snapshot(&id).await.map(Swap::Conflict);
        }
        if let Some(envelope) = next.as_ref().map(|record| &record.envelope) {
            if entry::size_of(envelope) > shared.most_entry {
                return Err(shared.unsupported(format!(
                    "a record of {} bytes, at most {} fit; keep its payload as a body",
                    entry::size_of(envelope),
                    shared.most_entry
                )));
            }
            if envelope.entries.len() > Envelope::MOST_ENTRIES {
                return Err(shared.unsupported(format!("more than {} list entries", Envelope::MOST_ENTRIES)));
            }
        }
        let (caller, answer) = Caller::here();
        let request = Request::Swap(SwapRequest { key, id, expected, next, caller });
        if shared.queue.push(request).await.is_err() {
            shared.healthy()?;
            return Err(shared.unavailable("it was closed"));
        }
        match answer.await {
            Ok(Reply::Swapped { version, stamp, spent }) => {
                drop(spent);
                Ok(Swap::Swapped { version, stamp })
            }
            Ok(Reply::Conflict) => self.snapshot(&id).await.map(Swap::Conflict),
            Ok(Reply::Failed(error)) => Err(error),
            Err(_) => Err(StoreError::Unknown { store: shared.name.clone(), reason: "the writer is gone".into() }),
        }
    }
}

/// The wall clock may have moved the anchor far ahead of the last stamp. Before anybody hears of it, it is durable; where
/// there is no room for that, the first write makes it so.
fn keep_time(appender: &mut Appender, time: &StoreTime) -> io::Result<()> {
    let now = time.now();
    let is_new = appender.last_stamp == 0;
    if is_new || now.since(Stamp(appender.last_stamp)) < KEPT_WITHIN {
        return Ok(());
    }
    match appender.start(0)? {
        Start::NoRoom => Ok(()),
        Start::Ready => match appender.commit(now.0) {
            Err(Failed::Write(error)) if is_full(&error) => Ok(()),
            Err(Failed::Write(error) | Failed::Sync(error)) => Err(error),
            Ok(()) => Ok(()),
        },
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("name", &self.shared.name)
            .field("recovered", &self.recovered)
            .finish_non_exhaustive()
    }
}

impl Store for Ledger {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        Box::pin(self.snapshot(id))
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(self.swap_it(*id, expected, next.map(|envelope| Live::unwritten(*id, envelope))))
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async {
            self.shared.healthy()?;
            Ok(self.shared.watchers.watch(self.shared.index.key(id)))
        })
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        Box::pin(async move {
            if !scan::reads_the_disk(index) {
                return scan::scan(&self.shared, &self.runs, index, after, limit);
            }
            let (runs, after) = (self.runs.clone(), after.cloned());
            self.shelf.aside(move |shared| scan::scan(shared, &runs, index, after.as_ref(), limit)).await
        })
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        let after = after.cloned();
        Box::pin(self.shelf.aside(move |shared| feed::changes(shared, after.as_ref(), limit)))
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        Box::pin(self.shelf.put(*owner, body, bytes))
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        Box::pin(self.shelf.get(body))
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        Box::pin(self.shelf.remove(body))
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        Box::pin(self.shelf.list(after, limit))
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        Box::pin(async move {
            let shared = &*self.shared;
            shared.healthy()?;
            // What is gone by now does not count, whether or not anybody has come by to see it go.
            let now = shared.time.tell();
            loop {
                // A little at a time: the writer waits for these books too.
                let mut books = shared.index.books();
                if !shared.index.pass_on(&mut books, now, shared.memory, PASSED_ON) {
                    continue;
                }
                if books.going.covers(now) {
                    let Count { records, tombstones, bytes } = books.accounts.count(tag);
                    return Ok(Usage { records, tombstones, bytes, exact: true });
                }
                drop(books);
                shared.index.refill_going(shared.memory, now);
            }
        })
    }

    fn now(&self) -> Option<Stamp> {
        Some(self.shared.time.tell())
    }

    fn durability(&self) -> Durability {
        match self.shared.poison.why() {
            None => Durability::Durable,
            Some(why) => Durability::BestEffort(why.to_owned()),
        }
    }

    fn level(&self) -> Level {
        Level::Full
    }

    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn single_writer(&self) -> bool {
        true
    }
}
