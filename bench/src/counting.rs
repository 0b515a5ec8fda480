//! A store that counts what it is asked for.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use bytes::Bytes;
use hapax_core::{Id, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyId, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, Swap, Usage,
    Watch,
};

#[derive(Debug)]
pub(crate) struct CountingStore {
    inner: Arc<dyn Store>,
    pub(crate) watches: Arc<AtomicUsize>,
}

impl CountingStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, watches: Arc::default() }
    }
}

impl Store for CountingStore {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        self.inner.get(id)
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        self.inner.swap(id, expected, next)
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        self.watches.fetch_add(1, SeqCst);
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
