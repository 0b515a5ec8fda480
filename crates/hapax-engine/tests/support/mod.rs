//! What every test of the engine stands on: time that follows the runtime's clock and can jump, a store in front of
//! which things go wrong, and one that counts and holds up what passes through it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{Effect, Id, Millis, Outcome, OutcomeClass, Policy, Preset, Stamp, StateName, Tag, Version};
use hapax_engine::{
    Begun, Call, Classified, Engine, EngineBuilder, OnceDone, OnceError, SeededEntropy, Settings, Ticket,
};
use hapax_store::{
    Answer, BodyId, BodyInfo, Changes, Clock, Cursor, Durability, Envelope, FaultyStore, Index, Level, MemoryStore,
    Page, Plan, Snapshot, Store, StoreError, Swap, Usage, Watch,
};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

/// The store's time: the runtime's own, paused or not, and an offset that a test moves.
#[derive(Debug)]
pub struct TestClock {
    started: Instant,
    offset: AtomicI64,
}

/// Well away from zero, so that it can also go back.
const START: i64 = 1_000_000_000_000;

impl TestClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), offset: AtomicI64::new(START) })
    }

    pub fn jump(&self, millis: i64) {
        self.offset.fetch_add(millis, SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Stamp {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap();
        Stamp(u64::try_from(self.offset.load(SeqCst) + elapsed).unwrap_or(0))
    }
}

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

    /// As if other processes wrote to it as well, and its time had to be asked for.
    pub fn pretend_to_promise(&self, promise: Durability) {
        *self.promise.lock() = promise;
    }

    pub fn pretend_shared(&self) {
        self.shared.store(true, SeqCst);
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
            let answer = self.inner.get(id).await;
            pass(held).await;
            answer
        })
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        self.swaps.fetch_add(1, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            let held = self.hold_swaps.lock().clone();
            let answer = self.inner.swap(id, expected, next).await;
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
            self.inner.watch(id).await
        })
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        self.scans.fetch_add(1, SeqCst);
        self.largest_scan.fetch_max(limit as u64, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            self.inner.scan(index, after, limit).await
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
            self.inner.put_body(owner, body, bytes).await
        })
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        self.bodies_got.fetch_add(1, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            if self.bodies_silent.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            self.inner.get_body(body).await
        })
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        Box::pin(async move {
            self.ready().await?;
            self.inner.drop_body(body).await
        })
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        self.largest_scan.fetch_max(limit as u64, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            self.inner.bodies(after, limit).await
        })
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        self.usages.fetch_add(1, SeqCst);
        Box::pin(async move {
            self.ready().await?;
            if self.usage_silent.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            self.inner.usage(tag).await
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

/// One store with all its layers.
pub struct World {
    pub clock: Arc<TestClock>,
    pub memory: Arc<MemoryStore>,
    pub faulty: Arc<FaultyStore>,
    pub store: Arc<Observed>,
}

impl World {
    pub fn new() -> Self {
        Self::with(Plan::quiet())
    }

    pub fn with(plan: Plan) -> Self {
        Self::remembering(plan, MemoryStore::LATE_WRITE_WINDOW)
    }

    /// A store that remembers removals for so long.
    pub fn remembering(plan: Plan, window: Millis) -> Self {
        let clock = TestClock::new();
        let memory = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>).with_late_write_window(window);
        let memory = Arc::new(memory);
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&memory) as Arc<dyn Store>, plan));
        let store = Observed::over(Arc::clone(&faulty) as Arc<dyn Store>);
        Self { clock, memory, faulty, store }
    }

    pub fn builder(&self) -> EngineBuilder {
        Engine::builder(Arc::clone(&self.store) as Arc<dyn Store>).settings(settings())
    }

    pub fn engine(&self) -> Engine {
        self.builder().build().unwrap()
    }

    pub fn engine_with(&self, policy: Policy) -> Engine {
        self.builder().policy("pay", policy).build().unwrap()
    }

    /// What is stored under this id, as it stands.
    pub async fn stored(&self, id: &Id) -> Snapshot {
        self.memory.get(id).await.unwrap()
    }
}

pub fn settings() -> Settings {
    Settings { owner: "test".into(), ..Settings::default() }
}

pub fn seeded(builder: EngineBuilder, seed: u64) -> Engine {
    builder.entropy(Arc::new(SeededEntropy::new(seed))).build().unwrap()
}

pub fn policy(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Preset::Standard.policy();
    change(&mut policy);
    policy
}

/// A call of one tenant on the surface that most tests use.
pub fn call(engine: &Engine, key: &str) -> Call {
    engine.surface("pay").tenant("acme").key(key)
}

pub fn id(engine: &Engine, key: &str) -> Id {
    call(engine, key).id().unwrap()
}

pub fn ticket(begun: Begun) -> Ticket {
    match begun {
        Begun::Execute(ticket) => ticket,
        Begun::Replay(_) | Begun::JoinedFailure(_) | Begun::Told(_) => panic!("expected a ticket, got {begun:?}"),
    }
}

pub async fn begin(call: Call) -> Ticket {
    ticket(call.begin().await.unwrap())
}

pub fn done(text: &'static str) -> Outcome {
    Outcome::success(text)
}

pub fn retryable(text: &'static str) -> Outcome {
    Outcome::new(OutcomeClass::RetryableFailure, hapax_core::Body::Inline(text.into()))
}

pub type Failed = Classified<String>;
pub type Given<T> = Result<OnceDone<T>, OnceError<Failed>>;

/// Runs it and gives this value.
pub async fn pay(call: Call, value: &'static str) -> Given<String> {
    call.once(move |_| async move { Ok::<_, Failed>(value.to_owned()) }).await
}

/// Must not run.
pub async fn never(call: Call) -> Given<String> {
    call.once(|_| async { panic!("it ran although it must not") }).await
}

pub async fn state(engine: &Engine, id: &Id) -> StateName {
    engine.explain(id).await.unwrap().state
}

pub async fn sleep(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Lets everything that can run do so.
pub async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

pub const UNSAFE: Effect = Effect::Unsafe;
pub const SECOND: Millis = Millis::from_secs(1);

/// Fails a test instead of letting it hang.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), what).await.expect("it hangs")
}
