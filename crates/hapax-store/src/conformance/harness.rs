use std::{sync::Arc, time::Duration};

use hapax_core::Millis;

use crate::{Answer, BoxFuture, MemoryStore, Store};

/// How the suite gets at the store it is to judge.
pub trait Harness: Send + Sync + 'static {
    /// An empty store, apart from every other one that was opened.
    fn open(&self) -> Answer<'_, Arc<dyn Store>>;

    /// Closes the store and opens it again on the same data; `None` where nothing outlives the process.
    fn reopen(&self, store: Arc<dyn Store>) -> Answer<'_, Option<Arc<dyn Store>>> {
        drop(store);
        Box::pin(async { Ok(None) })
    }

    /// Moves the time of every store that was opened on by so much; false where that cannot be done.
    fn advance(&self, by: Millis) -> BoxFuture<'_, bool> {
        let _ = by;
        Box::pin(async { false })
    }

    /// For how long the store remembers a removal at least.
    fn late_write_window(&self) -> Millis {
        MemoryStore::LATE_WRITE_WINDOW
    }

    /// How long a wake-up may take on the slowest machine.
    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }
}
