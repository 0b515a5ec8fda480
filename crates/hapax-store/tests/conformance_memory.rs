//! The memory store passes the suite, alone and inside its faulty twin; and the twin itself changes nothing it is not
//! told to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use hapax_core::Millis;
use hapax_store::{
    Answer, BoxFuture, Clock, FaultyStore, ManualClock, MemoryStore, Odds, Plan, Seeded, Store,
    conformance::{self, Harness},
};

#[derive(Default)]
struct Memory {
    clock: Arc<ManualClock>,
    /// Odds of the twin, if there is one.
    twin: Option<Odds>,
    /// Pretends that the store outlives the process, so that those checks run too.
    outlives: bool,
}

impl Harness for Memory {
    fn open(&self) -> Answer<'_, Arc<dyn Store>> {
        let memory = MemoryStore::new(Arc::clone(&self.clock) as Arc<dyn Clock>);
        let store: Arc<dyn Store> = match self.twin {
            None => Arc::new(memory),
            Some(odds) => Arc::new(FaultyStore::new(Arc::new(memory), Plan::seeded(1, odds))),
        };
        Box::pin(async { Ok(store) })
    }

    fn reopen(&self, store: Arc<dyn Store>) -> Answer<'_, Option<Arc<dyn Store>>> {
        Box::pin(async move { Ok(self.outlives.then_some(store)) })
    }

    fn advance(&self, by: Millis) -> BoxFuture<'_, bool> {
        self.clock.advance(by);
        Box::pin(async { true })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_store_is_a_store() {
    let report = conformance::run(Arc::new(Memory::default())).await;
    report.assert_passed();
    // Only what needs to outlive the process is left out.
    assert!(report.skipped().all(|name| name.contains("reopening")), "{report}");
}

#[tokio::test]
async fn it_is_one_on_a_single_thread_too() {
    conformance::run(Arc::new(Memory::default())).await.assert_passed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_twin_that_is_only_slow_is_a_store() {
    let odds = Odds { slow: 2, ..Odds::default() };
    conformance::run(Arc::new(Memory { twin: Some(odds), ..Memory::default() })).await.assert_passed();
}

#[tokio::test]
async fn the_checks_that_reopen_can_be_passed() {
    let report = conformance::run(Arc::new(Memory { outlives: true, ..Memory::default() })).await;
    report.assert_passed();
    assert_eq!(report.skipped().count(), 0, "{report}");
}

#[tokio::test]
async fn histories_through_the_faulty_twin_keep_the_contract() {
    let seed = Seeded::seed_or(20_260_101);
    conformance::run_faulty(
        Arc::new(Memory::default()),
        seed,
        if std::env::var_os("HAPAX_SEED").is_some() { 1 } else { 5_000 },
    )
    .await
    .assert_passed();
}
