//! What happens between a program and its NATS.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use hapax_nats::{NatsStore, Options};
use hapax_store::{BoxFuture, Store};
use hapax_testkit::{
    Nats,
    accidents::{self, ANSWER},
    children,
};

fn open(port: u16) -> BoxFuture<'static, Arc<dyn Store>> {
    Box::pin(async move {
        let options = Options::new(format!("nats://127.0.0.1:{port}")).answer_timeout(ANSWER).connect_timeout(ANSWER);
        for _ in 0..20 {
            // A machine under load may not answer within half a second.
            if let Ok(store) = NatsStore::open_with(options.clone()).await {
                return Arc::new(store) as Arc<dyn Store>;
            }
        }
        Arc::new(NatsStore::open_with(options).await.unwrap()) as Arc<dyn Store>
    })
}

/// C2.
#[tokio::test]
async fn a_begin_that_lands_after_its_release_conflicts() {
    let nats = Nats::start();
    accidents::a_begin_that_lands_after_its_release_conflicts(&open, nats.port()).await;
}

/// C3.
#[tokio::test]
async fn a_begin_that_lands_after_it_was_disowned_conflicts() {
    let nats = Nats::start();
    accidents::a_begin_that_lands_after_it_was_disowned_conflicts(&open, nats.port()).await;
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_can_be_recognised() {
    let nats = Nats::start();
    accidents::a_lost_answer_is_unknown_and_can_be_recognised(&open, nats.port()).await;
}

#[tokio::test]
async fn a_cut_connection_comes_back() {
    let nats = Nats::start();
    accidents::a_cut_connection_comes_back(&open, nats.port()).await;
}

#[tokio::test]
async fn wakes_reach_other_processes() {
    let nats = Nats::start();
    accidents::wakes_reach_other_processes(&open, nats.port()).await;
}

#[tokio::test]
async fn a_watch_outlives_its_connection() {
    let nats = Nats::start();
    accidents::a_watch_outlives_its_connection(&open, nats.port()).await;
}

/// A refusal names a sequence and nothing more, so a duplicate reads as well.
#[tokio::test]
async fn each_step_is_one_round_trip_and_a_duplicate_two() {
    let nats = Nats::start();
    accidents::each_step_is_one_round_trip_but_a_duplicate(&open, nats.port(), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9() {
    let mut nats = Nats::start();
    accidents::what_was_acknowledged_survives_kill_9(&open, &mut nats).await;
}

#[tokio::test]
async fn a_pause_past_the_lease_runs_nothing_twice() {
    let nats = Nats::start();
    accidents::a_pause_past_the_lease_runs_nothing_twice(&open, &nats).await;
}

/// Not a test of its own: one process of a crew.
#[tokio::test]
async fn child() {
    let Some(task) = children::task() else { return };
    let (what, port) = task.split_once(' ').unwrap();
    let store = NatsStore::open(format!("nats://127.0.0.1:{port}")).await.unwrap();
    match what {
        "share" => accidents::share_keys(Arc::new(store)).await,
        _ => accidents::skewed(Arc::new(store)).await,
    }
}

#[tokio::test]
async fn two_and_eight_processes_share_their_keys() {
    for processes in [2, 8] {
        let nats = Nats::start();
        let task = || format!("share {}", nats.port());
        accidents::count_together("child", processes, open(nats.port()).await, task).await;
    }
}

#[tokio::test]
async fn clients_with_wrong_clocks_change_nothing() {
    let nats = Nats::start();
    accidents::skewed_clocks_change_nothing("child", || format!("skew {}", nats.port())).await;
}
