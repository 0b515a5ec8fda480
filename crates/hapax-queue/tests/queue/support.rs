//! What every test stands on: time that is moved by hand, and a store that can be cut off after so many writes.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{
    Body, Id, Millis, Outcome, Stamp, Tag, Version,
    identity::Tenant,
    task::{Payload, TaskId},
};
use hapax_engine::{Engine, Settings};
use hapax_queue::{Handed, LeaseRequest, NewTask, Queue, QueueSettings, Status, TaskResult};
use hapax_store::{
    Answer, BodyId, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, ManualClock, MemoryStore, Page,
    Snapshot, Store, StoreError, Swap, Usage, Watch,
};

/// Lets so many writes through, then none: what a process leaves behind that dies between two of them.
pub struct Cut {
    inner: Arc<dyn Store>,
    left: AtomicI64,
    pub writes: AtomicU64,
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cut")
    }
}

impl Cut {
    pub fn over(inner: Arc<dyn Store>, writes: i64) -> Arc<Self> {
        Arc::new(Self { inner, left: AtomicI64::new(writes), writes: AtomicU64::new(0) })
    }

    pub fn allow(&self, writes: i64) {
        self.left.store(writes, SeqCst);
    }

    fn dead() -> StoreError {
        StoreError::Unsupported { store: "cut".into(), reason: "the process is dead".into() }
    }
}

impl Store for Cut {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        self.inner.get(id)
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(async move {
            if self.left.fetch_sub(1, SeqCst) <= 0 {
                return Err(Self::dead());
            }
            let swapped = self.inner.swap(id, expected, next).await?;
            match swapped {
                Swap::Swapped { .. } => _ = self.writes.fetch_add(1, SeqCst),
                Swap::Conflict(_) => _ = self.left.fetch_add(1, SeqCst),
            }
            Ok(swapped)
        })
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        self.inner.watch(id)
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        self.inner.scan(index, after, limit)
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        self.inner.changes(after, limit)
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        self.inner.put_body(owner, body, bytes)
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        self.inner.get_body(body)
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        self.inner.drop_body(body)
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        self.inner.bodies(after, limit)
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        self.inner.usage(tag)
    }

    fn now(&self) -> Option<Stamp> {
        self.inner.now()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn level(&self) -> Level {
        self.inner.level()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn single_writer(&self) -> bool {
        self.inner.single_writer()
    }
}

/// A queue on a store of its own.
pub struct Bench {
    pub clock: Arc<ManualClock>,
    pub store: Arc<dyn Store>,
    pub queue: Queue,
}

impl Bench {
    pub async fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        Self { clock, queue: queue_on(store.clone()).await, store }
    }

    pub fn pass(&self, millis: u64) {
        self.clock.advance(Millis(millis));
    }

    /// Another process on the same store.
    pub async fn again(&self) -> Queue {
        queue_on(self.store.clone()).await
    }

    /// Another process that dies after so many writes.
    pub async fn dying(&self) -> (Queue, Arc<Cut>) {
        let cut = Cut::over(self.store.clone(), i64::MAX);
        (queue_on(cut.clone()).await, cut)
    }
}

pub async fn queue_on(store: Arc<dyn Store>) -> Queue {
    queue_with(store, QueueSettings::default()).await
}

pub async fn queue_with(store: Arc<dyn Store>, settings: QueueSettings) -> Queue {
    let engine = Engine::builder(store).settings(Settings { owner: "test".into(), ..Settings::default() });
    Queue::open(&engine.build().unwrap(), settings).await.unwrap()
}

pub fn acme() -> Tenant {
    Tenant::new("acme").unwrap()
}

pub fn id(number: u64) -> TaskId {
    let mut bits = [0; 16];
    bits[8..].copy_from_slice(&number.to_be_bytes());
    TaskId::random(bits)
}

pub fn json(text: &str) -> Payload {
    Payload { json: true, bytes: Bytes::copy_from_slice(text.as_bytes()) }
}

/// From `planner` to `indexer`, unsafe to run twice.
pub fn task(number: u64) -> NewTask {
    NewTask::new(id(number), "planner", "indexer", "index", json(r#"{"page":7}"#))
}

pub fn keyed(number: u64, key: &str) -> NewTask {
    task(number).idempotent(key)
}

pub fn done(text: &str) -> TaskResult {
    TaskResult::completed(false, text.to_owned())
}

pub async fn lease_one(queue: &Queue) -> Option<Handed> {
    queue.lease(&acme(), &LeaseRequest::of("indexer", "worker")).await.unwrap().pop()
}

pub async fn state(queue: &Queue, number: u64) -> Status {
    queue.task(&acme(), id(number)).await.unwrap()
}

/// What the sender would receive now.
pub async fn results(queue: &Queue) -> Vec<(TaskId, String)> {
    let found = queue.results(&acme(), "planner", 100, Duration::ZERO).await.unwrap();
    found.iter().map(|delivery| (delivery.order.id, text(&delivery.outcome))).collect()
}

pub fn text(outcome: &Outcome) -> String {
    match &outcome.body {
        Body::Inline(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}
