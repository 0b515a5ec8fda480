//! The stories of agents and workflows, on the ledger.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use hapax_ledger::{Ledger, Options};
use hapax_store::{BoxFuture, Store};
use hapax_testkit::{
    TempDir,
    killed::{self, Scene},
    stories::Stage,
};

fn open(place: String) -> BoxFuture<'static, Arc<dyn Store>> {
    Box::pin(async move {
        let options = Options::new(place).segment_bytes(64 << 10, 256 << 10);
        Arc::new(Ledger::open_with(options).unwrap()) as Arc<dyn Store>
    })
}

/// Gives a place of its own for each run.
fn places() -> impl Fn() -> String + Sync {
    let (dir, opened) = (TempDir::new("agents"), AtomicU64::new(0));
    move || dir.join(&opened.fetch_add(1, SeqCst).to_string()).display().to_string()
}

/// The process that is killed. Without a task it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    killed::child(&open).await;
}

#[tokio::test]
async fn one_refund_wherever_its_process_is_killed() {
    killed::one_refund(&Scene { child: "agents::child", place: &places(), open: &open, stride: 1 }).await;
}

#[tokio::test]
async fn a_corrected_refund_wherever_its_process_is_killed() {
    killed::corrected_refund(&Scene { child: "agents::child", place: &places(), open: &open, stride: 1 }).await;
}

#[tokio::test]
async fn each_inverse_once_and_in_order_wherever_its_process_is_killed() {
    killed::unwinding(&Scene { child: "agents::child", place: &places(), open: &open, stride: 1 }).await;
}

fn stage() -> Stage {
    let place = places();
    Stage::on(move || open(place()))
}

hapax_testkit::tell_on_a_server!();
