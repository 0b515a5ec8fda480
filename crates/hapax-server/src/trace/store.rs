//! A store whose calls are spans.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{BodyId, Id, Millis, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, StoreError, Swap,
    Usage, Watch,
};

use super::{here::spanned, span::Kind};

/// Passes every call on, inside a span where the caller is in a trace.
#[derive(Debug)]
pub struct Traced(Arc<dyn Store>);

impl Traced {
    #[must_use]
    pub fn around(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

fn call<'a, T: Send + 'a>(name: &'static str, answer: Answer<'a, T>) -> Answer<'a, T> {
    Box::pin(spanned(name, Kind::Client, answer, |answered: &Result<T, StoreError>| answered.is_err()))
}

impl Store for Traced {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        call("store get", self.0.get(id))
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        call("store swap", self.0.swap(id, expected, next))
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        call("store watch", self.0.watch(id))
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        call("store scan", self.0.scan(index, after, limit))
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        call("store changes", self.0.changes(after, limit))
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        call("store put body", self.0.put_body(owner, body, bytes))
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        call("store get body", self.0.get_body(body))
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        call("store drop body", self.0.drop_body(body))
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        call("store bodies", self.0.bodies(after, limit))
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        call("store usage", self.0.usage(tag))
    }

    fn now(&self) -> Option<Stamp> {
        self.0.now()
    }

    fn clock_error(&self) -> Millis {
        self.0.clock_error()
    }

    fn durability(&self) -> Durability {
        self.0.durability()
    }

    fn ask_durability(&self) -> Answer<'_, Durability> {
        call("store durability", self.0.ask_durability())
    }

    fn level(&self) -> Level {
        self.0.level()
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn single_writer(&self) -> bool {
        self.0.single_writer()
    }
}
