//! A store that counts every call that passes through it, and holds answers back when asked to.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{BodyId, Id, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, StoreError, Swap,
    Usage, Watch,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// How the store behaves towards everybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    Well,
    /// Says at once that it is not there.
    Down,
    /// Never answers.
    Silent,
}

/// Counts every call, and holds answers back when asked to.
pub struct Observed {
    inner: Arc<dyn Store>,
    pub gets: AtomicU64,
    pub swaps: AtomicU64,
    pub watches: AtomicU64,
    pub scans: AtomicU64,
    pub usages: AtomicU64,
    pub bodies_put: AtomicU64,
    pub bodies_got: AtomicU64,
    pub largest_scan: AtomicU64,
    mood: Mutex<Mood>,
    /// Swaps that have happened wait here before they answer.
    hold_swaps: Mutex<Option<Arc<Semaphore>>>,
    /// Reads that have happened wait here before they answer.
    hold_gets: Mutex<Option<Arc<Semaphore>>>,
    watch_fails: AtomicBool,
    body_puts_fail: AtomicU64,
    usage_silent: AtomicBool,
    bodies_silent: AtomicBool,
    shared: AtomicBool,
    /// What it says of itself where it pretends to be shared.
    promise: Mutex<Durability>,
    /// Calls that the store below has not answered so far.
    busy: AtomicU64,
}

/// One call that is under way, until it is answered or given up.
struct Busy<'a>(&'a AtomicU64);

impl<'a> Busy<'a> {
    fn with(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Observed {
    pub fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            gets: AtomicU64::default(),
            swaps: AtomicU64::default(),
            watches: AtomicU64::default(),
            scans: AtomicU64::default(),
            usages: AtomicU64::default(),
            bodies_put: AtomicU64::default(),
            bodies_got: AtomicU64::default(),
            largest_scan: AtomicU64::default(),
            mood: Mutex::new(Mood::Well),
            hold_swaps: Mutex::default(),
            hold_gets: Mutex::default(),
            watch_fails: AtomicBool::default(),
            body_puts_fail: AtomicU64::default(),
            usage_silent: AtomicBool::default(),
            bodies_silent: AtomicBool::default(),
            shared: AtomicBool::default(),
            promise: Mutex::new(Durability::Durable),
            busy: AtomicU64::default(),
        })
    }

    pub fn mood(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    pub fn calls(&self) -> u64 {
        [&self.gets, &self.swaps, &self.watches, &self.scans, &self.usages, &self.bodies_put, &self.bodies_got]
            .iter()
            .map(|counter| counter.load(SeqCst))
            .sum()
    }

    /// From now on swaps happen but their answers wait for permits.
    pub fn hold_swaps(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.hold_swaps.lock() = Some(Arc::clone(&gate));
        gate
    }

    pub fn hold_gets(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.hold_gets.lock() = Some(Arc::clone(&gate));
        gate
    }

    pub fn hold_nothing(&self) {
        *self.hold_swaps.lock() = None;
        *self.hold_gets.lock() = None;
    }

    pub fn watches_fail(&self, fail: bool) {
        self.watch_fails.store(fail, SeqCst);
    }

    pub fn fail_body_puts(&self, times: u64) {
        self.body_puts_fail.store(times, SeqCst);
    }

    /// From now on no body is given.
    pub fn bodies_are_silent(&self) {
        self.bodies_silent.store(true, SeqCst);
    }

    pub fn usage_is_silent(&self) {
        self.usage_silent.store(true, SeqCst);
    }

    pub fn pretend_to_promise(&self, promise: Durability) {
        *self.promise.lock() = promise;
    }

    /// As if other processes wrote to it as well, and its time had to be asked for.
    pub fn pretend_shared(&self) {
        self.shared.store(true, SeqCst);
    }

    /// Lets everything that can run do so, until all that is left waits: for a held answer, or for time to pass. To be
    /// asked on a runtime of one thread.
    pub async fn settle(&self) {
        loop {
            let before = self.calls();
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            if self.busy.load(SeqCst) == 0 && self.calls() == before {
                return;
            }
            if self.busy.load(SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    async fn inside<T>(&self, call: impl Future<Output = T> + Send) -> T {
        let _busy = Busy::with(&self.busy);
        call.await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let mood = *self.mood.lock();
        match mood {
            Mood::Well => Ok(()),
            Mood::Down => Err(self.gone()),
            Mood::Silent => std::future::pending().await,
        }
    }

    fn gone(&self) -> StoreError {
        StoreError::Unavailable { store: "observed".into(), reason: "down".into() }
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observed")
    }
}

async fn pass(gate: Option<Arc<Semaphore>>) {
    if let Some(gate) = gate {
        gate.acquire().await.unwrap().forget();
    }
}

impl Store for Observed {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        self.gets.fetch_add(1, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            let held = self.hold_gets.lock().clone();
            let answer = self.inside(self.inner.get(id)).await;
            pass(held).await;
            answer
        })
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        self.swaps.fetch_add(1, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            let held = self.hold_swaps.lock().clone();
            let answer = self.inside(self.inner.swap(id, expected, next)).await;
            pass(held).await;
            answer
        })
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        self.watches.fetch_add(1, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            if self.watch_fails.load(SeqCst) {
                return Err(self.gone());
            }
            self.inside(self.inner.watch(id)).await
        })
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        self.scans.fetch_add(1, SeqCst);
        self.largest_scan.fetch_max(limit as u64, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            self.inside(self.inner.scan(index, after, limit)).await
        })
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        self.inner.changes(after, limit)
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        self.bodies_put.fetch_add(1, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            if self.body_puts_fail.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                return Err(self.gone());
            }
            self.inside(self.inner.put_body(owner, body, bytes)).await
        })
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        self.bodies_got.fetch_add(1, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            if self.bodies_silent.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            self.inside(self.inner.get_body(body)).await
        })
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        Box::pin(async move {
            self.ready().await?;
            self.inside(self.inner.drop_body(body)).await
        })
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        self.largest_scan.fetch_max(limit as u64, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            self.inside(self.inner.bodies(after, limit)).await
        })
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        self.usages.fetch_add(1, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            if self.usage_silent.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            self.inside(self.inner.usage(tag)).await
        })
    }

    fn now(&self) -> Option<Stamp> {
        if self.shared.load(SeqCst) { None } else { self.inner.now() }
    }

    fn durability(&self) -> Durability {
        if self.shared.load(SeqCst) { self.promise.lock().clone() } else { self.inner.durability() }
    }

    fn level(&self) -> Level {
        self.inner.level()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn single_writer(&self) -> bool {
        !self.shared.load(SeqCst) && self.inner.single_writer()
    }
}
