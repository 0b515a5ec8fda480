//! Postgres passes the shared suite, plain and inside the faulty twin.

use std::sync::Arc;

use crate::common::Shared;
use hapax_store::{Odds, Seeded, conformance};
use hapax_testkit::Postgres;

/// As it comes: every write is synced before its answer. Time cannot be moved here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_postgres_is_a_store() {
    let shared = Arc::new(Shared::on(Postgres::start()));
    for part in ["swap::", "removal::", "watch::", "race::", "cancel::", "body::"] {
        conformance::run_only(shared.clone(), part).await.assert_passed();
    }
}

/// The server's own clock is moved, so that nothing is left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_a_store() {
    let shared = Shared { moves_time: true, ..Shared::on(Postgres::with_clock()) };
    let report = conformance::run(Arc::new(shared)).await;
    report.assert_passed();
    assert_eq!(report.skipped().count(), 0, "{report}");
}

#[tokio::test]
async fn it_is_one_on_a_single_thread_inside_a_slow_twin() {
    let odds = Odds { slow: 2, ..Odds::default() };
    let shared = Shared { twin: Some(odds), ..Shared::on(Postgres::forgetful()) };
    conformance::run(Arc::new(shared)).await.assert_passed();
}

#[tokio::test]
async fn histories_through_the_faulty_twin_keep_the_contract() {
    let seed = Seeded::seed_or(20_260_301);
    let histories = if std::env::var_os("HAPAX_SEED").is_some() { 1 } else { 200 };
    let shared = Shared::on(Postgres::forgetful());
    conformance::run_faulty(Arc::new(shared), seed, histories).await.assert_passed();
}
