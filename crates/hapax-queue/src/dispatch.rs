//! One dispatcher per process: it hands distinct candidates to its workers, and wakes those who wait.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use hapax_core::{Id, Tag};
use hapax_engine::Engine;
use hapax_store::Index;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::QueueError;

/// How many candidates are looked up at once.
pub(crate) const PAGE: usize = 256;
/// How many queues are remembered while nobody uses them.
const MOST_IDLE: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct Dispatch {
    lists: Mutex<HashMap<Tag, Arc<Candidates>>>,
}

/// What waits in one list, as this process last saw it.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    waiting: tokio::sync::Mutex<VecDeque<Id>>,
    /// Handed to a worker that has not said yet what became of it.
    busy: Mutex<HashSet<Id>>,
    bell: Notify,
    /// How often it has rung.
    rings: AtomicU64,
    /// One more than the ring at which there was nothing to be had; zero: not known.
    empty_at: AtomicU64,
    /// How far those who take from some senders only have looked.
    pub(crate) passed: Mutex<HashMap<Vec<String>, crate::narrow::Passed>>,
}

/// A candidate that only one caller of this process has.
#[derive(Debug)]
pub(crate) struct Candidate {
    list: Arc<Candidates>,
    pub(crate) id: Id,
    settled: bool,
}

impl Candidate {
    /// It was looked at, and is either handed out or not for anybody now.
    pub(crate) fn settle(mut self) {
        self.settled = true;
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.list.busy.lock().remove(&self.id);
        // Whoever had it was cut short: it still waits, and others have passed it over meanwhile.
        if !self.settled {
            self.list.ring();
        }
    }
}

impl Dispatch {
    pub(crate) fn list(&self, tag: Tag) -> Arc<Candidates> {
        let mut lists = self.lists.lock();
        if lists.len() > MOST_IDLE {
            lists.retain(|_, list| Arc::strong_count(list) > 1);
        }
        Arc::clone(lists.entry(tag).or_default())
    }

    /// Something has come into this list.
    pub(crate) fn ring(&self, tag: Tag) {
        let list = self.lists.lock().get(&tag).cloned();
        if let Some(list) = list {
            list.ring();
        }
    }
}

impl Candidates {
    /// Resolves at the next ring. Everything that rings after this was called is heard.
    pub(crate) fn heard(&self) -> tokio::sync::futures::Notified<'_> {
        self.bell.notified()
    }

    fn ring(&self) {
        self.rings.fetch_add(1, SeqCst);
        self.bell.notify_waiters();
    }

    /// This one, unless somebody in this process has it.
    pub(crate) fn claim(self: &Arc<Self>, id: Id) -> Option<Candidate> {
        let free = self.busy.lock().insert(id);
        free.then(|| Candidate { list: Arc::clone(self), id, settled: false })
    }

    /// The oldest candidate that nobody in this process has. `rung`: the caller was woken, and nobody but this process
    /// writes, so that there is nothing to be had until the next ring once one of those who were woken has found nothing.
    pub(crate) async fn take(
        self: &Arc<Self>,
        engine: &Engine,
        tag: Tag,
        rung: bool,
    ) -> Result<Option<Candidate>, QueueError> {
        let mut waiting = self.waiting.lock().await;
        loop {
            while let Some(id) = waiting.pop_front() {
                if let Some(candidate) = self.claim(id) {
                    return Ok(Some(candidate));
                }
            }
            let rings = self.rings.load(SeqCst);
            if rung && self.empty_at.load(SeqCst) == rings + 1 {
                return Ok(None);
            }
            let room = PAGE + self.busy.lock().len();
            let page = engine.scan(Index::Queue(tag), None, room).await?;
            let busy = self.busy.lock();
            waiting.extend(page.items.into_iter().filter(|id| !busy.contains(id)));
            if waiting.is_empty() {
                self.empty_at.store(rings + 1, SeqCst);
                return Ok(None);
            }
        }
    }
}
