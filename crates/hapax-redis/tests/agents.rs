//! The stories of agents and workflows, on a real Redis.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use hapax_redis::{Options, RedisStore};
use hapax_store::{BoxFuture, Store};
use hapax_testkit::{
    Redis,
    killed::{self, Scene},
    stories::Stage,
};

/// A place is a port and a prefix.
fn open(place: String) -> BoxFuture<'static, Arc<dyn Store>> {
    Box::pin(async move {
        let (port, prefix) = place.split_once('/').unwrap();
        let options = Options::new(format!("redis://127.0.0.1:{port}/")).prefix(prefix);
        Arc::new(RedisStore::open_with(options).await.unwrap()) as Arc<dyn Store>
    })
}

/// Gives a place of its own for each run, on one server.
fn places() -> impl Fn() -> String + Sync {
    let (redis, opened) = (Redis::start(), AtomicU64::new(0));
    move || format!("{}/agents-{}:", redis.port(), opened.fetch_add(1, SeqCst))
}

/// The process that is killed. Without a task it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    killed::child(&open).await;
}

/// Every point of each story is died at on the ledger; here every fifth, so that all kinds of points are.
#[tokio::test]
async fn stories_whose_process_is_killed() {
    let scene = Scene { child: "agents::child", place: &places(), open: &open, stride: 5 };
    killed::one_refund(&scene).await;
    killed::corrected_refund(&scene).await;
    killed::unwinding(&scene).await;
}

fn stage() -> Stage {
    let place = places();
    Stage::on(move || open(place()))
}

hapax_testkit::tell_on_a_server!();
