//! A store that is watched: how often it is asked for lists, and its writes held up until they may go on.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use bytes::Bytes;
use hapax_core::{Id, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyId, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, Swap, Usage,
    Watch,
};
use tokio::sync::{Semaphore, watch};

pub struct Slow {
    inner: Arc<dyn Store>,
    holds: watch::Sender<bool>,
    /// One for each write that was held up.
    pub reached: Semaphore,
    pub scans: AtomicU64,
}

impl Slow {
    /// Holds nothing up until it is told to.
    pub fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        let (holds, reached) = (watch::Sender::new(false), Semaphore::new(0));
        Arc::new(Self { inner, holds, reached, scans: AtomicU64::new(0) })
    }

    pub fn hold(&self) {
        self.holds.send_replace(true);
    }

    /// Lets everything go on, also what is held up now.
    pub fn let_go(&self) {
        self.holds.send_replace(false);
    }
}

impl fmt::Debug for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slow")
    }
}

impl Store for Slow {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        self.inner.get(id)
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(async move {
            let mut holds = self.holds.subscribe();
            if *holds.borrow() {
                self.reached.add_permits(1);
            }
            holds.wait_for(|holds| !holds).await.unwrap();
            self.inner.swap(id, expected, next).await
        })
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        self.inner.watch(id)
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        self.scans.fetch_add(1, SeqCst);
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
