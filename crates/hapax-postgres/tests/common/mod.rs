#![allow(dead_code, unreachable_pub, reason = "each test uses its own part of it")]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use hapax_core::Millis;
use hapax_postgres::{Options, PostgresStore};
use hapax_store::{Answer, BoxFuture, FaultyStore, Odds, Plan, Store, StoreError, conformance::Harness};
use hapax_testkit::Postgres;

/// Opens stores on one server, each in a schema of its own.
pub struct Shared {
    pub postgres: Postgres,
    pub moves_time: bool,
    pub twin: Option<Odds>,
    pub opened: AtomicU64,
    pub last: Mutex<Option<Options>>,
}

impl Shared {
    pub fn on(postgres: Postgres) -> Self {
        Self { postgres, moves_time: false, twin: None, opened: AtomicU64::new(0), last: Mutex::default() }
    }

    pub async fn fresh(&self) -> Result<Arc<dyn Store>, StoreError> {
        let schema = format!("test {}", self.opened.fetch_add(1, SeqCst));
        let options = Options::new(self.postgres.url()).schema(schema).connections(8);
        *self.last.lock().unwrap() = Some(options.clone());
        self.wrap(options).await
    }

    async fn wrap(&self, options: Options) -> Result<Arc<dyn Store>, StoreError> {
        let store = PostgresStore::open_with(options).await;
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

    fn advance(&self, by: Millis) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            if !self.moves_time {
                return false;
            }
            let store = self.fresh().await.unwrap();
            let id = hapax_testkit::sample::id(0);
            let before = store.get(&id).await.unwrap().now;
            self.postgres.clock().jump(i64::try_from(by.0).unwrap());
            // The server's processes see their new time a moment later, each for itself.
            while store.get(&id).await.unwrap().now < before.plus(by) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
            true
        })
    }

    fn late_write_window(&self) -> Millis {
        Millis::from_mins(10)
    }
}
