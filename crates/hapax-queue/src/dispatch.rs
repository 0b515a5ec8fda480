//! One dispatcher per process: it hands distinct candidates to its workers, and wakes those who wait.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use hapax_core::{Id, Tag};
use hapax_engine::Engine;
use hapax_store::Index;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::QueueError;

/// How many candidates are looked up at once.
const PAGE: usize = 256;
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
}

/// A candidate that only one caller of this process has.
#[derive(Debug)]
pub(crate) struct Candidate {
    list: Arc<Candidates>,
    pub(crate) id: Id,
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.list.busy.lock().remove(&self.id);
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
            list.bell.notify_waiters();
        }
    }
}

impl Candidates {
    /// Resolves at the next ring. Everything that rings after this was called is heard.
    pub(crate) fn heard(&self) -> tokio::sync::futures::Notified<'_> {
        self.bell.notified()
    }

    /// The oldest candidate that nobody in this process has.
    pub(crate) async fn take(self: &Arc<Self>, engine: &Engine, tag: Tag) -> Result<Option<Candidate>, QueueError> {
        let mut waiting = self.waiting.lock().await;
        loop {
            while let Some(id) = waiting.pop_front() {
                if self.busy.lock().insert(id) {
                    return Ok(Some(Candidate { list: Arc::clone(self), id }));
                }
            }
            let room = PAGE + self.busy.lock().len();
            let page = engine.scan(Index::Queue(tag), None, room).await?;
            let busy = self.busy.lock();
            waiting.extend(page.items.into_iter().filter(|id| !busy.contains(id)));
            if waiting.is_empty() {
                return Ok(None);
            }
        }
    }
}
