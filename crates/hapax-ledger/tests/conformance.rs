//! The ledger passes the shared suite, plain and inside the faulty twin.

#![allow(clippy::disallowed_methods, reason = "real processes and threads take real time")]

use std::sync::{Arc, Mutex};

use crate::common::*;
use hapax_core::Millis;
use hapax_ledger::{Ledger, OpenError, Options, disk::RecordingDisk};
use hapax_store::{
    Answer, BoxFuture, FaultyStore, Odds, Plan, Seeded, Store, StoreError,
    conformance::{self, Harness},
};

struct Files {
    clock: Arc<ManualClock>,
    /// On a real disk, or in memory.
    real: bool,
    segment_bytes: u64,
    twin: Option<Odds>,
    dirs: Mutex<Vec<TempDir>>,
    last: Mutex<Option<Options>>,
}

impl Files {
    fn new(real: bool) -> Self {
        Self {
            clock: ManualClock::new(),
            real,
            segment_bytes: 4 << 20,
            twin: None,
            dirs: Mutex::default(),
            last: Mutex::default(),
        }
    }

    fn wrap(&self, ledger: Ledger) -> Arc<dyn Store> {
        match self.twin {
            None => Arc::new(ledger),
            Some(odds) => Arc::new(FaultyStore::new(Arc::new(ledger), Plan::seeded(1, odds))),
        }
    }
}

fn failed(error: OpenError) -> StoreError {
    StoreError::Unavailable { store: "file".into(), reason: error.to_string() }
}

impl Harness for Files {
    fn open(&self) -> Answer<'_, Arc<dyn Store>> {
        let options = if self.real {
            let dir = TempDir::new("conformance");
            let options = Options::new(&dir.0).segment_bytes(4 << 20, 8 << 20);
            self.dirs.lock().unwrap().push(dir);
            options
        } else {
            Options::new("/l")
                .segment_bytes(self.segment_bytes, self.segment_bytes)
                .disk(Arc::new(RecordingDisk::default()))
        };
        let options = options.clock(self.clock.clone());
        *self.last.lock().unwrap() = Some(options.clone());
        Box::pin(async move { Ok(self.wrap(Ledger::open_with(options).map_err(failed)?)) })
    }

    fn reopen(&self, store: Arc<dyn Store>) -> Answer<'_, Option<Arc<dyn Store>>> {
        drop(store);
        let options = self.last.lock().unwrap().clone().unwrap();
        Box::pin(async move { Ok(Some(self.wrap(Ledger::open_with(options).map_err(failed)?))) })
    }

    fn advance(&self, by: Millis) -> BoxFuture<'_, bool> {
        self.clock.advance(by.0);
        Box::pin(async { true })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_is_a_store() {
    let report = conformance::run(Arc::new(Files::new(true))).await;
    report.assert_passed();
    assert_eq!(report.skipped().count(), 0, "{report}");
}

#[tokio::test]
async fn it_is_one_on_a_single_thread_too() {
    conformance::run(Arc::new(Files::new(false))).await.assert_passed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_twin_that_is_only_slow_is_a_store() {
    let odds = Odds { slow: 2, ..Odds::default() };
    conformance::run(Arc::new(Files { twin: Some(odds), ..Files::new(false) })).await.assert_passed();
}

#[tokio::test]
async fn histories_through_the_faulty_twin_keep_the_contract() {
    let seed = Seeded::seed_or(20_260_102);
    let histories = if std::env::var_os("HAPAX_SEED").is_some() { 1 } else { 500 };
    conformance::run_faulty(Arc::new(Files { segment_bytes: 16 << 10, ..Files::new(false) }), seed, histories)
        .await
        .assert_passed();
}
