#![allow(dead_code, unreachable_pub, reason = "each test uses its own part of it")]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use hapax_core::Millis;
use hapax_redis::{Options, RedisStore};
use hapax_store::{Answer, BoxFuture, FaultyStore, Odds, Plan, Store, StoreError, conformance::Harness};
use hapax_testkit::Redis;

/// Opens stores on one server, each under a prefix of its own.
pub struct Shared {
    pub url: String,
    /// Kept for as long as it is used.
    pub redis: Option<Redis>,
    pub twin: Option<Odds>,
    pub opened: AtomicU64,
    pub last: Mutex<Option<Options>>,
}

impl Shared {
    pub fn on(redis: Redis) -> Self {
        let url = redis.url();
        Self { redis: Some(redis), ..Self::at(url) }
    }

    pub fn at(url: String) -> Self {
        Self { url, redis: None, twin: None, opened: AtomicU64::new(0), last: Mutex::default() }
    }

    pub async fn fresh(&self) -> Result<Arc<dyn Store>, StoreError> {
        let prefix = format!("test-{}:", self.opened.fetch_add(1, SeqCst));
        let options = Options::new(self.url.clone()).prefix(prefix).removal_memory(REMOVAL_MEMORY);
        *self.last.lock().unwrap() = Some(options.clone());
        self.wrap(options).await
    }

    async fn wrap(&self, options: Options) -> Result<Arc<dyn Store>, StoreError> {
        let store = RedisStore::open_with(options).await;
        let store = store.unwrap_or_else(|error| panic!("{error}"));
        Ok(match self.twin {
            None => Arc::new(store),
            Some(odds) => Arc::new(FaultyStore::new(Arc::new(store), Plan::seeded(1, odds))),
        })
    }
}

impl Harness for Shared {
    fn open(&self) -> Answer<'_, Arc<dyn Store>> {
        Box::pin(self.fresh())
    }

    fn reopen(&self, store: Arc<dyn Store>) -> Answer<'_, Option<Arc<dyn Store>>> {
        drop(store);
        let options = self.last.lock().unwrap().clone().unwrap();
        Box::pin(async move { Ok(Some(self.wrap(options).await?)) })
    }

    /// Redis cannot be given another clock, so short times really pass. An hour cannot be waited for.
    fn advance(&self, by: Millis) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let short = by <= REMOVAL_MEMORY.max(Millis(SAID_MEMORY.0 * 10));
            if short {
                tokio::time::sleep(by.as_std()).await;
            }
            short
        })
    }

    fn late_write_window(&self) -> Millis {
        SAID_MEMORY
    }
}

/// Removals are remembered for longer than is said, so that a slow machine has time to look, and for less than ten times
/// what is said, when they are expected to be forgotten.
const SAID_MEMORY: Millis = Millis(400);
const REMOVAL_MEMORY: Millis = Millis(3_900);
