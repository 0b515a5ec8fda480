//! The way from one process to the store: it can be slow, refuse, hang, and die with its process.

use std::{
    future::pending,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{BodyId, Id, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyInfo, Changes, Cursor, Durability, Envelope, FaultyStore, Index, Level, Page, Seeded, Snapshot, Store,
    StoreError, Swap, Usage, Watch,
};
use tokio::sync::Notify;

/// How the line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mood {
    Up,
    /// Every call fails at once, and says so.
    Refusing,
    /// No call is answered. A write may have gone through, may not, or may go through once the line is up again.
    Hanging,
    Dead,
}

#[derive(Debug)]
pub(crate) struct Line {
    store: Arc<FaultyStore>,
    mood: AtomicU8,
    healed: Arc<Notify>,
    dice: Mutex<Seeded>,
    /// The store lives in this process: its time can be asked, and nobody else writes.
    local: bool,
    /// How often a call is delayed, in a thousand.
    delays: u64,
}

impl Line {
    #[must_use]
    pub(crate) fn new(store: Arc<FaultyStore>, seed: u64, local: bool, delays: u64) -> Self {
        let dice = Mutex::new(Seeded::new(seed));
        Self { store, mood: AtomicU8::new(0), healed: Arc::default(), dice, local, delays }
    }

    #[must_use]
    pub(crate) fn faulty(&self) -> &FaultyStore {
        &self.store
    }

    #[must_use]
    pub(crate) fn mood(&self) -> Mood {
        match self.mood.load(Relaxed) {
            0 => Mood::Up,
            1 => Mood::Refusing,
            2 => Mood::Hanging,
            3.. => Mood::Dead,
        }
    }

    /// What is dead stays so.
    pub(crate) fn set(&self, mood: Mood) {
        if self.mood() == Mood::Dead {
            return;
        }
        let number = match mood {
            Mood::Up => 0,
            Mood::Refusing => 1,
            Mood::Hanging => 2,
            Mood::Dead => 3,
        };
        self.mood.store(number, Relaxed);
        if mood == Mood::Up {
            self.healed.notify_waiters();
        }
    }

    fn draw(&self, limit: u64) -> u64 {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).below(limit)
    }

    async fn pass(&self) -> Result<(), StoreError> {
        for _ in 0..self.draw(3) {
            tokio::task::yield_now().await;
        }
        if self.draw(1_000) < self.delays {
            tokio::time::sleep(Duration::from_millis(1 + self.draw(60))).await;
        }
        match self.mood() {
            Mood::Up => Ok(()),
            Mood::Refusing => Err(StoreError::Unavailable { store: self.name(), reason: "cut off".into() }),
            Mood::Hanging | Mood::Dead => {
                pending::<()>().await;
                Ok(())
            }
        }
    }

    /// What becomes of a write that nobody will hear of.
    async fn unheard(&self, id: &Id, expected: Version, next: Option<Envelope>) {
        if self.mood() != Mood::Hanging {
            return;
        }
        match self.draw(4) {
            0 => {
                let _nobody_hears = self.store.swap(id, expected, next).await;
            }
            1 => {
                let (store, healed, id) = (Arc::clone(&self.store), Arc::clone(&self.healed), *id);
                tokio::spawn(async move {
                    healed.notified().await;
                    let _nobody_hears = store.swap(&id, expected, next).await;
                });
            }
            2.. => {}
        }
    }

    async fn through<T>(&self, answer: Answer<'_, T>) -> Result<T, StoreError> {
        self.pass().await?;
        let answer = answer.await;
        for _ in 0..self.draw(2) {
            tokio::task::yield_now().await;
        }
        if self.mood() == Mood::Dead {
            pending::<()>().await;
        }
        answer
    }
}

impl Store for Line {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        Box::pin(self.through(self.store.get(id)))
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(async move {
            self.unheard(id, expected, next.clone()).await;
            self.through(self.store.swap(id, expected, next)).await
        })
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(self.through(self.store.watch(id)))
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        Box::pin(self.through(self.store.scan(index, after, limit)))
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        Box::pin(self.through(self.store.changes(after, limit)))
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        Box::pin(self.through(self.store.put_body(owner, body, bytes)))
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        Box::pin(self.through(self.store.get_body(body)))
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        Box::pin(self.through(self.store.drop_body(body)))
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        Box::pin(self.through(self.store.bodies(after, limit)))
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        Box::pin(self.through(self.store.usage(tag)))
    }

    fn now(&self) -> Option<Stamp> {
        if self.local { self.store.now() } else { None }
    }

    /// The world's store outlives every crash of those who use it.
    fn durability(&self) -> Durability {
        Durability::Durable
    }

    fn level(&self) -> Level {
        self.store.level()
    }

    fn name(&self) -> String {
        "line".into()
    }

    fn single_writer(&self) -> bool {
        self.local
    }
}
