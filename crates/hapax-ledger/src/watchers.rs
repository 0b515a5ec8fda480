//! Who waits for which record.

use std::{
    future::pending,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use foldhash::fast::RandomState;
use hapax_store::{BoxFuture, Watch};
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch::{self, Receiver, Sender};

use crate::slot::Key;

#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// So that a write nobody waits for costs one look.
    held: AtomicUsize,
    by_key: Mutex<HashMap<Key, Sender<()>, RandomState>>,
}

impl Watchers {
    pub(crate) fn watch(self: &Arc<Self>, key: Key) -> Box<dyn Watch> {
        let mut by_key = self.by_key.lock();
        let sender = by_key.entry(key).or_insert_with(|| watch::channel(()).0);
        let changes = sender.subscribe();
        self.held.store(by_key.len(), Ordering::SeqCst);
        Box::new(Watcher { key, changes: Some(changes), watchers: Arc::downgrade(self) })
    }

    pub(crate) fn wake(&self, key: Key) {
        if self.held.load(Ordering::SeqCst) != 0
            && let Some(sender) = self.by_key.lock().get(&key)
        {
            sender.send_replace(());
        }
    }

    /// Everybody: what they wait for may never come.
    pub(crate) fn wake_all(&self) {
        for sender in self.by_key.lock().values() {
            sender.send_replace(());
        }
    }

    fn leave(&self, key: Key) {
        let mut by_key = self.by_key.lock();
        if by_key.get(&key).is_some_and(|sender| sender.receiver_count() == 0) {
            by_key.remove(&key);
            self.held.store(by_key.len(), Ordering::SeqCst);
        }
    }
}

#[derive(Debug)]
struct Watcher {
    key: Key,
    changes: Option<Receiver<()>>,
    watchers: Weak<Watchers>,
}

impl Watch for Watcher {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let heard = match &mut self.changes {
                Some(changes) => changes.changed().await.is_ok(),
                None => false,
            };
            if !heard {
                pending::<()>().await;
            }
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.changes = None;
        if let Some(watchers) = self.watchers.upgrade() {
            watchers.leave(self.key);
        }
    }
}
