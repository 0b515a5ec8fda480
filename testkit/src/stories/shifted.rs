//! A store whose time is ahead of its server's by as much as a test wants: no real server waits an hour for a lease.
//!
//! Stamps of what was written before a jump stay as they were; what is written after it is stamped ahead. So the rules see
//! one clock that has jumped. An index may then answer with more than what is due, which the contract allows.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::{BodyId, Id, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, Swap, Usage, Watch,
};
use parking_lot::RwLock;

/// From this moment of the server on, its time is so much ahead in all.
#[derive(Clone, Copy, Debug)]
struct Jump {
    from: Stamp,
    ahead: u64,
}

#[derive(Debug)]
pub struct Shifted {
    inner: Arc<dyn Store>,
    jumps: RwLock<Vec<Jump>>,
}

const NOBODY: Id = Id([0; 32]);

impl Shifted {
    pub fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { inner, jumps: RwLock::default() })
    }

    /// Ahead by so much from now on. Nothing may be under way.
    pub async fn jump(&self, by_ms: u64) {
        let from = Stamp(self.inner.get(&NOBODY).await.unwrap().now.0 + 1);
        // So that no later write has the stamp of an earlier one.
        while self.inner.get(&NOBODY).await.unwrap().now < from {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut jumps = self.jumps.write();
        let ahead = jumps.last().map_or(0, |jump| jump.ahead) + by_ms;
        jumps.push(Jump { from, ahead });
    }

    fn shift(&self, stamp: Stamp) -> Stamp {
        let jumps = self.jumps.read();
        let ahead = jumps.iter().rev().find(|jump| jump.from <= stamp).map_or(0, |jump| jump.ahead);
        Stamp(stamp.0 + ahead)
    }

    fn seen(&self, snapshot: Snapshot) -> Snapshot {
        Snapshot { stamp: self.shift(snapshot.stamp), now: self.shift(snapshot.now), ..snapshot }
    }
}

impl Store for Shifted {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        Box::pin(async move { Ok(self.seen(self.inner.get(id).await?)) })
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(async move {
            Ok(match self.inner.swap(id, expected, next).await? {
                Swap::Swapped { version, stamp } => Swap::Swapped { version, stamp: self.shift(stamp) },
                Swap::Conflict(snapshot) => Swap::Conflict(self.seen(snapshot)),
            })
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
        Box::pin(async move {
            let Page { items, next } = self.inner.bodies(after, limit).await?;
            let shifted = |info: BodyInfo| BodyInfo { stored: self.shift(info.stored), ..info };
            Ok(Page { items: items.into_iter().map(shifted).collect(), next })
        })
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        self.inner.usage(tag)
    }

    fn now(&self) -> Option<Stamp> {
        self.inner.now().map(|now| self.shift(now))
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
