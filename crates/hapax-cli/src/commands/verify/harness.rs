use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use hapax::{Apart, Millis, Store, StoreError, StoreUrlError, conformance::Harness};
use hapax_store::{Answer, BoxFuture};

/// Gives the suite its stores on the user's server. Checks run one after the other, so the last one opened is the one
/// that is opened again.
pub(super) struct Corner {
    apart: Arc<Apart>,
    last: AtomicU32,
}

impl Corner {
    pub(super) fn new(apart: Arc<Apart>) -> Self {
        Self { apart, last: AtomicU32::new(0) }
    }
}

impl Harness for Corner {
    fn open(&self) -> Answer<'_, Arc<dyn Store>> {
        Box::pin(async {
            let (store, room) = self.apart.open().await.map_err(|error| unavailable(&error))?;
            self.last.store(room, Relaxed);
            Ok(store)
        })
    }

    fn reopen(&self, store: Arc<dyn Store>) -> Answer<'_, Option<Arc<dyn Store>>> {
        let in_memory = store.name() == "memory";
        drop(store);
        Box::pin(async move {
            if in_memory {
                return Ok(None);
            }
            let again = self.apart.open_again(self.last.load(Relaxed)).await;
            again.map(Some).map_err(|error| unavailable(&error))
        })
    }

    /// Nobody's clock is moved: short times really pass, and long ones are left out.
    fn advance(&self, by: Millis) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let short = by <= Apart::REMOVAL_MEMORY.max(Millis(SAID_MEMORY.0 * 10));
            if short {
                tokio::time::sleep(by.as_std()).await;
            }
            short
        })
    }

    fn late_write_window(&self) -> Millis {
        SAID_MEMORY
    }

    /// It may be far away, and busy.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// Less than the stores are told, so that a slow server has time to be asked, and more than a tenth of it.
const SAID_MEMORY: Millis = Millis(400);

fn unavailable(error: &StoreUrlError) -> StoreError {
    StoreError::Unavailable { store: "the store".to_owned(), reason: error.to_string() }
}
