use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use bytes::Bytes;
use hapax_core::{BodyId, Id, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, Swap, Usage, Watch,
};

use crate::children::say;

/// What a process says when it waits to be killed.
pub(super) const HERE: &str = "here";

/// The point of its story at which a process is killed.
#[derive(Debug)]
pub(super) struct Fate {
    at: u64,
    passed: AtomicU64,
}

impl Fate {
    pub(super) fn at(at: u64) -> Arc<Self> {
        Arc::new(Self { at, passed: AtomicU64::new(0) })
    }

    /// One more point. Whoever comes to the fatal one stays there; all others go on until the kill comes.
    pub(super) async fn point(&self) {
        if self.passed.fetch_add(1, SeqCst) == self.at {
            say(HERE);
            std::future::pending::<()>().await;
        }
    }
}

/// A store before and after each write to which there is a point.
pub(super) struct Deadly {
    inner: Arc<dyn Store>,
    fate: Arc<Fate>,
}

impl Deadly {
    pub(super) const fn new(inner: Arc<dyn Store>, fate: Arc<Fate>) -> Self {
        Self { inner, fate }
    }
}

impl fmt::Debug for Deadly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deadly")
    }
}

impl Store for Deadly {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        self.inner.get(id)
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(async move {
            self.fate.point().await;
            let swapped = self.inner.swap(id, expected, next).await;
            self.fate.point().await;
            swapped
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
