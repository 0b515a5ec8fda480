//! The scheduler: sleeps first, needs its capability, writes one row per pass and one per requeue.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use hapax_core::{Millis, task::GateEntry};
use hapax_queue::{GatePolicy, Noted, PassRow, Scheduler, SchedulerConfig, SchedulerHost, TaskStateName};
use parking_lot::Mutex;

use crate::support::*;

#[derive(Clone, Default)]
struct Host(Arc<Rows>);

#[derive(Default)]
struct Rows {
    may: AtomicBool,
    passes: Mutex<Vec<PassRow>>,
    requeues: Mutex<Vec<GateEntry>>,
    spared: Mutex<Vec<GateEntry>>,
    /// The worker that renews while the row of its requeue is written.
    comes_back: Mutex<Option<(hapax_queue::Queue, hapax_core::Token)>>,
    more: tokio::sync::Notify,
}

impl SchedulerHost for Host {
    fn may_requeue(&self) -> bool {
        self.0.may.load(SeqCst)
    }

    fn actor(&self) -> String {
        "scheduler".into()
    }

    fn note_requeue(&self, entry: GateEntry) -> Noted<'_> {
        self.0.requeues.lock().push(entry);
        let back = self.0.comes_back.lock().clone();
        Box::pin(async move {
            if let Some((queue, token)) = back {
                queue.renew(&acme(), id(1), token, Millis(60_000)).await?;
            }
            Ok(())
        })
    }

    fn note_spared(&self, entry: GateEntry, _: hapax_queue::Skip) -> Noted<'_> {
        self.0.spared.lock().push(entry);
        Box::pin(async { Ok(()) })
    }

    fn note_pass(&self, row: PassRow) -> Noted<'_> {
        self.0.passes.lock().push(row);
        self.0.more.notify_one();
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn without_the_capability_nothing_changes_and_the_row_says_why() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let _leased = lease_one(&bench.queue).await.unwrap();
    bench.pass(300_000);
    let host = Host::default();
    let policy = GatePolicy { enabled: true, ..GatePolicy::default() };
    assert!(bench.queue.scheduled_pass(policy, &host).await.unwrap().is_none());
    assert_eq!(state(&bench.queue, 1).await.state, TaskStateName::Stale);
    assert!(host.0.passes.lock()[0].error.as_ref().unwrap().contains("a2a.repair.requeue"));
    host.0.may.store(true, SeqCst);
    for number in 2..5 {
        let _ = bench.queue.send(&acme(), task(number)).await.unwrap();
        let _leased = lease_one(&bench.queue).await.unwrap();
    }
    assert!(bench.queue.scheduled_pass(policy, &host).await.unwrap().is_some());
    let rows = host.0.passes.lock();
    assert_eq!((rows.len(), host.0.requeues.lock().len()), (2, 1));
    assert_eq!((rows[1].considered, rows[1].requeued, rows[1].skipped), (4, 1, 3));
    assert_eq!(rows[1].skips.get("lease_too_young"), Some(&3));
    assert_eq!((rows[1].error.as_ref(), rows[1].policy), (None, policy));
}

#[tokio::test(start_paused = true)]
async fn it_sleeps_first_and_never_overlaps() {
    let bench = Bench::new().await;
    let host = Host::default();
    let config = SchedulerConfig { interval: Millis(60_000), policy: GatePolicy::default() };
    let running = Scheduler::start(bench.queue.clone(), config, host.clone());
    tokio::time::sleep(std::time::Duration::from_millis(59_000)).await;
    assert!(host.0.passes.lock().is_empty(), "it slept first");
    for passes in 1..=3 {
        host.0.more.notified().await;
        assert_eq!(host.0.passes.lock().len(), passes);
    }
    drop(running);
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(host.0.passes.lock().len(), 3, "stopped");
}

/// The row about a requeue is written first. Then the worker came back and kept its lease; the row stood there as if the task
/// had been handed out again.
#[tokio::test]
async fn a_requeue_that_was_not_done_after_all_is_said_to_be_none() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let handed = lease_one(&bench.queue).await.unwrap();
    bench.pass(300_000);
    let host = Host::default();
    host.0.may.store(true, SeqCst);
    *host.0.comes_back.lock() = Some((bench.queue.clone(), handed.token));
    let policy = GatePolicy { enabled: true, ..GatePolicy::default() };
    let report = bench.queue.scheduled_pass(policy, &host).await.unwrap().unwrap();
    assert_eq!((report.requeued.len(), host.0.requeues.lock().len()), (0, 1));
    assert_eq!(host.0.spared.lock()[0].lease, Some(handed.lease_id));
}
