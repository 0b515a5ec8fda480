//! What really is in the store: every accepted write, in order, with wake-ups in an order that can be repeated.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Poll, Waker},
};

use bytes::Bytes;
use hapax_core::{BodyId, Id, Record, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyInfo, BoxFuture, Changes, Counted, Cursor, Durability, Envelope, Index, Kind, Level, MemoryStore, Page,
    Snapshot, Store, Swap, Usage, Watch, codec,
};

use super::{
    clock::WorldClock,
    history::{History, What},
};

/// The one store behind all processes.
#[derive(Debug)]
pub(super) struct Truth {
    store: MemoryStore,
    history: Arc<History>,
    inner: Mutex<Inner>,
    /// The most records of a tag, where that must never be exceeded.
    limits: Mutex<BTreeMap<Tag, u64>>,
}

#[derive(Debug, Default)]
struct Inner {
    records: BTreeMap<Id, Option<Arc<Record>>>,
    versions: BTreeMap<Id, Version>,
    watches: BTreeMap<Id, Vec<Weak<Mutex<Woken>>>>,
}

#[derive(Debug, Default)]
struct Woken {
    changed: bool,
    waker: Option<Waker>,
}

struct TruthWatch(Arc<Mutex<Woken>>);

impl Watch for TruthWatch {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(poll_fn(|context| {
            let mut woken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::take(&mut woken.changed) {
                return Poll::Ready(());
            }
            woken.waker = Some(context.waker().clone());
            Poll::Pending
        }))
    }
}

impl Truth {
    #[must_use]
    pub(super) fn new(clock: Arc<WorldClock>, history: Arc<History>) -> Self {
        // Which removals are forgotten when depends on a random hash inside the store; here none ever is.
        let store = MemoryStore::new(clock).with_late_write_window(hapax_core::Millis(u64::MAX));
        Self { store, history, inner: Mutex::default(), limits: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limit(&self, tag: Tag, most: u64) {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner).insert(tag, most);
    }

    /// Every id that was ever written, with what is there now.
    #[must_use]
    pub(super) fn all(&self) -> Vec<(Id, Option<Arc<Record>>)> {
        self.inner().records.iter().map(|(id, record)| (*id, record.clone())).collect()
    }

    async fn check_limits(&self, envelope: &Envelope) {
        if envelope.counted != Counted::Record {
            return;
        }
        for tag in [envelope.surface, envelope.tenant] {
            let most = self.limits.lock().unwrap_or_else(PoisonError::into_inner).get(&tag).copied();
            let Some(most) = most else { continue };
            let Ok(usage) = self.store.usage(tag).await else { continue };
            if usage.records > most {
                self.history.violation(format!("13: {} records of {tag:?}, at most {most} may be kept", usage.records));
            }
        }
    }

    fn accepted(&self, id: &Id, expected: Version, version: Version, stamp: Stamp, next: Option<&Envelope>) {
        // Who sweeps and which secret holds are kept in records of their own; the promises are about operations.
        if next.is_some_and(|envelope| envelope.kind != Kind::OPERATION) {
            self.inner().versions.insert(*id, version);
            return;
        }
        let record = match next.map(codec::open).transpose() {
            Ok(record) => record.map(|record| Arc::new(record.settled(version, stamp))),
            Err(error) => {
                self.history.violation(format!("the store was given a record that cannot be read: {error}"));
                None
            }
        };
        let waiting = {
            let mut inner = self.inner();
            let known = inner.versions.insert(*id, version).unwrap_or(Version::NEVER);
            if known != expected || version <= known {
                self.history.violation(format!(
                    "store: {id:?} stood at {known:?}, yet a write against {expected:?} was accepted as {version:?}"
                ));
            }
            inner.records.insert(*id, record.clone());
            let mut waiting = Vec::new();
            if let Some(watches) = inner.watches.get_mut(id) {
                watches.retain(|watch| watch.strong_count() > 0);
                waiting.extend(watches.iter().filter_map(Weak::upgrade));
            }
            waiting
        };
        let state = record.as_ref().map_or(hapax_core::StateName::Absent, |record| record.state.name());
        self.history.cover(format!("state {state:?}"));
        self.history.log(What::Write { id: *id, expected, version, stamp, record });
        for woken in waiting {
            let waker = {
                let mut woken = woken.lock().unwrap_or_else(PoisonError::into_inner);
                woken.changed = true;
                woken.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Store for Truth {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        self.store.get(id)
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(async move {
            let swap = self.store.swap(id, expected, next.clone()).await?;
            match &swap {
                Swap::Swapped { version, stamp } => {
                    self.accepted(id, expected, *version, *stamp, next.as_ref());
                    if let Some(envelope) = &next {
                        self.check_limits(envelope).await;
                    }
                }
                Swap::Conflict(_) => {}
            }
            Ok(swap)
        })
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move {
            let woken = Arc::new(Mutex::new(Woken::default()));
            self.inner().watches.entry(*id).or_default().push(Arc::downgrade(&woken));
            Ok(Box::new(TruthWatch(woken)) as Box<dyn Watch>)
        })
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        self.store.scan(index, after, limit)
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        self.store.changes(after, limit)
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        self.store.put_body(owner, body, bytes)
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        self.store.get_body(body)
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        self.store.drop_body(body)
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        self.store.bodies(after, limit)
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        self.store.usage(tag)
    }

    fn now(&self) -> Option<Stamp> {
        self.store.now()
    }

    /// The world's store outlives every crash of those who use it.
    fn durability(&self) -> Durability {
        Durability::Durable
    }

    fn level(&self) -> Level {
        self.store.level()
    }

    fn name(&self) -> String {
        "truth".into()
    }

    fn single_writer(&self) -> bool {
        true
    }
}
