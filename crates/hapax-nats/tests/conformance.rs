//! NATS passes the shared suite at level basic, plain and inside the faulty twin.

use std::sync::Arc;

use crate::common::Shared;
use hapax_store::{Odds, Seeded, conformance};
use hapax_testkit::Nats;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_is_a_store() {
    let report = conformance::run(Arc::new(Shared::on(Nats::start()))).await;
    report.assert_passed();
    let basic = [
        "time::moves_on",
        "list::groups_hold_their_members",
        "list::a_queue_keeps_its_order",
        "list::an_entry_goes_when_its_record_lets_it_go",
    ];
    assert_eq!(report.skipped().collect::<Vec<_>>(), basic, "{report}");
}

#[tokio::test]
async fn it_is_one_on_a_single_thread_inside_a_slow_twin() {
    let odds = Odds { slow: 2, ..Odds::default() };
    let shared = Shared { twin: Some(odds), ..Shared::on(Nats::start()) };
    conformance::run(Arc::new(shared)).await.assert_passed();
}

#[tokio::test]
async fn histories_through_the_faulty_twin_keep_the_contract() {
    let seed = Seeded::seed_or(20_260_301);
    let histories = if std::env::var_os("HAPAX_SEED").is_some() { 1 } else { 200 };
    let shared = Shared::on(Nats::start());
    conformance::run_faulty(Arc::new(shared), seed, histories).await.assert_passed();
}
