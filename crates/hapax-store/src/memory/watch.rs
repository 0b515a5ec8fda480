use std::{fmt, future::pending, sync::Arc};

use hapax_core::Id;
use tokio::sync::watch::Receiver;

use super::shard::Shards;
use crate::{BoxFuture, Watch};

/// One of the watchers of one id. Going away, it takes the registration along if it was the last.
pub(super) struct MemoryWatch {
    shards: Arc<Shards>,
    id: Id,
    /// `None` only while it is being dropped.
    wakes: Option<Receiver<()>>,
}

impl MemoryWatch {
    pub(super) fn new(shards: Arc<Shards>, id: Id) -> Self {
        let wakes = Some(shards.of(&id).lock().subscribe(id));
        Self { shards, id, wakes }
    }
}

impl Watch for MemoryWatch {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let woken = match &mut self.wakes {
                Some(wakes) => wakes.changed().await.is_ok(),
                None => false,
            };
            if !woken {
                pending::<()>().await;
            }
        })
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.wakes = None;
        self.shards.of(&self.id).lock().unsubscribe(&self.id);
    }
}

impl fmt::Debug for MemoryWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWatch").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_watcher_takes_the_registration_along() {
        let shards = Arc::new(Shards::new());
        let id = Id([1; 32]);
        let first = MemoryWatch::new(Arc::clone(&shards), id);
        let second = MemoryWatch::new(Arc::clone(&shards), id);
        drop(first);
        assert!(shards.of(&id).lock().watched(&id).is_some());
        drop(second);
        assert!(shards.of(&id).lock().watched(&id).is_none());
    }
}
