//! Who in this process waits for which record: what a store on another machine needs to hand its wake-ups on.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hapax_core::Id;
use hashbrown::{HashMap, hash_map::Entry};
use parking_lot::Mutex;
use tokio::sync::watch::{Receiver, Sender};

use crate::{BoxFuture, Watch};

/// Everybody who waits in this process.
#[derive(Debug, Default)]
pub struct Waiters(Mutex<HashMap<Id, Sender<()>, RandomState>>);

impl Waiters {
    /// One more. Every wake from here on is seen by it.
    #[must_use]
    pub fn join(self: &Arc<Self>, id: Id) -> Waiter {
        let wakes = self.0.lock().entry(id).or_insert_with(|| Sender::new(())).subscribe();
        Waiter { waiters: Arc::clone(self), id, wakes: Some(wakes) }
    }

    pub fn wake(&self, id: &Id) {
        let sender = self.0.lock().get(id).cloned();
        if let Some(sender) = sender {
            sender.send_replace(());
        }
    }

    /// For nothing, perhaps: whoever waits reads and sees.
    pub fn wake_all(&self) {
        let senders: Vec<Sender<()>> = self.0.lock().values().cloned().collect();
        for sender in senders {
            sender.send_replace(());
        }
    }

    /// Who is waited for.
    #[must_use]
    pub fn ids(&self) -> Vec<Id> {
        self.0.lock().keys().copied().collect()
    }
}

/// One of the waiters for one id.
#[derive(Debug)]
pub struct Waiter {
    waiters: Arc<Waiters>,
    id: Id,
    /// `None` only while it is being dropped.
    wakes: Option<Receiver<()>>,
}

impl Watch for Waiter {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let woken = match &mut self.wakes {
                Some(wakes) => wakes.changed().await.is_ok(),
                None => false,
            };
            if !woken {
                std::future::pending::<()>().await;
            }
        })
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.wakes = None;
        if let Entry::Occupied(entry) = self.waiters.0.lock().entry(self.id)
            && entry.get().receiver_count() == 0
        {
            entry.remove();
        }
    }
}
