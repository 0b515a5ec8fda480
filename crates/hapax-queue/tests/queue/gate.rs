//! The retry gate: a true preview without `enable`, bounded with it.

use std::sync::atomic::Ordering::SeqCst;

use hapax_core::{Millis, task::GateEntry};
use hapax_queue::{GatePolicy, GateReport, GateScope, Queue, QueueError, Skip, TaskStateName};

use crate::support::*;

async fn pass(queue: &Queue, policy: GatePolicy) -> GateReport {
    let nothing = |_: GateEntry| async { Ok::<(), QueueError>(()) };
    queue.retry_stale(GateScope::Tenant(&acme()), policy, "op", |_| true, nothing).await.unwrap()
}

fn enabled() -> GatePolicy {
    GatePolicy { enabled: true, ..GatePolicy::default() }
}

/// What a preview says is what a pass does, and a preview writes nothing, not even what it finds half done.
#[tokio::test]
async fn without_enable_it_is_a_true_preview() {
    let bench = Bench::new().await;
    for number in 0..3 {
        let _ = bench.queue.send(&acme(), keyed(number, &format!("k{number}"))).await.unwrap();
        let _leased = lease_one(&bench.queue).await.unwrap();
    }
    let _ = bench.queue.send(&acme(), task(3)).await.unwrap();
    let _leased = lease_one(&bench.queue).await.unwrap();
    // A requeue that died after its fence: what it will be is known, and a preview leaves it alone.
    let (dying, cut) = bench.dying().await;
    cut.allow(1);
    let half = state(&bench.queue, 2).await.lease_id.unwrap();
    let kind = hapax_queue::RepairKind::Requeue { posture: hapax_queue::RepairPosture::Idempotent, auto: false };
    let _ = dying.repair(&acme(), id(2), half, kind, "op", "why").await;
    bench.pass(300_000);
    let (watched, cut) = bench.dying().await;
    let before = cut.writes.load(SeqCst);
    let preview = pass(&watched, GatePolicy { max_requeues: 5, ..GatePolicy::default() }).await;
    assert_eq!(cut.writes.load(SeqCst), before, "a preview wrote");
    assert!(!preview.policy.enabled);
    let requeued: Vec<_> = preview.requeued.iter().map(|entry| entry.task).collect();
    assert_eq!(requeued, [id(0), id(1)]);
    let real = pass(&watched, GatePolicy { max_requeues: 5, ..enabled() }).await;
    assert_eq!((&real.requeued, &real.skipped), (&preview.requeued, &preview.skipped));
    let reasons: Vec<_> = real.skipped.iter().map(|skipped| (skipped.entry.task, skipped.reason)).collect();
    assert_eq!(reasons, [(id(2), Skip::NotInFlight), (id(3), Skip::MissingIdempotency)]);
    assert!(lease_one(&bench.queue).await.is_some() && lease_one(&bench.queue).await.is_some());
}

#[tokio::test]
async fn ages_attempts_and_limits_are_kept_to_the_edge() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let _ = bench.queue.send(&acme(), keyed(2, "l")).await.unwrap();
    let _first = (lease_one(&bench.queue).await.unwrap(), lease_one(&bench.queue).await.unwrap());
    bench.pass(299_999);
    let young = pass(&bench.queue, enabled()).await;
    assert_eq!((young.requeued.len(), young.skipped.len()), (0, 2));
    assert!(young.skipped.iter().all(|skipped| skipped.reason == Skip::LeaseTooYoung));
    bench.pass(1);
    for (policy, reason) in [
        (GatePolicy { max_requeues: 0, ..enabled() }, Skip::LimitReached),
        (GatePolicy { max_attempts: 0, ..enabled() }, Skip::MaxAttemptsReached),
        (GatePolicy { max_attempts: 1, ..enabled() }, Skip::MaxAttemptsReached),
    ] {
        let report = pass(&bench.queue, policy).await;
        assert_eq!(report.requeued.len(), 0);
        assert!(report.skipped.iter().all(|skipped| skipped.reason == reason), "{report:?}");
    }
    let nobody = |_: GateEntry| async { Ok::<(), QueueError>(()) };
    let tenant = acme();
    let foreign =
        bench.queue.retry_stale(GateScope::Tenant(&tenant), enabled(), "op", |_| false, nobody).await.unwrap();
    assert!(foreign.skipped.iter().all(|skipped| skipped.reason == Skip::CapabilityScopeMismatch));
    assert_eq!(pass(&bench.queue, GatePolicy { scan_limit: 1, ..enabled() }).await.considered, 1);
    // Three executions in all: two requeues of each task, then no more.
    for round in 0..8 {
        bench.pass(300_000);
        while lease_one(&bench.queue).await.is_some() {}
        bench.pass(300_000);
        let report = pass(&bench.queue, enabled()).await;
        assert!(report.requeued.len() <= 1, "one per pass");
        if round == 7 {
            assert!(report.skipped.iter().all(|skipped| skipped.reason == Skip::MaxAttemptsReached), "{report:?}");
        }
    }
    for number in [1, 2] {
        let status = state(&bench.queue, number).await;
        assert_eq!((status.task.attempt, status.state), (3, TaskStateName::Stale));
        assert!(status.task.repairs.iter().all(|repair| matches!(
            repair.kind,
            hapax_queue::RepairKind::Requeue { posture: hapax_queue::RepairPosture::Idempotent, auto: true }
        )));
    }
}

/// The original looked through its whole queue up to the scan limit, so that a long queue hid every stale lease.
#[tokio::test]
async fn a_thousand_queued_tasks_do_not_starve_it() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(0, "k")).await.unwrap();
    let _leased = lease_one(&bench.queue).await.unwrap();
    for number in 1..=1_000 {
        let _ = bench.queue.send(&acme(), keyed(number, &format!("k{number}"))).await.unwrap();
    }
    bench.pass(300_000);
    let report = pass(&bench.queue, enabled()).await;
    assert_eq!((report.considered, report.requeued.len()), (1, 1));
    assert_eq!(report.requeued[0].task, id(0));
    assert_eq!(lease_one(&bench.queue).await.unwrap().order.id, id(1), "requeued at the back");
}

#[tokio::test]
async fn a_renewed_lease_is_not_stale() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let handed = lease_one(&bench.queue).await.unwrap();
    for _ in 0..10 {
        bench.pass(290_000);
        bench.queue.renew(&acme(), id(1), handed.token, Millis(60_000)).await.unwrap();
        assert_eq!(pass(&bench.queue, enabled()).await.requeued.len(), 0);
    }
    // A lease that still runs is too young, however long it has not been renewed.
    bench.queue.renew(&acme(), id(1), handed.token, Millis(3_600_000)).await.unwrap();
    bench.pass(400_000);
    assert_eq!(pass(&bench.queue, enabled()).await.skipped[0].reason, Skip::LeaseTooYoung);
    bench.pass(3_200_000);
    assert_eq!(pass(&bench.queue, enabled()).await.requeued.len(), 1);
    assert!(bench.queue.post(&acme(), id(1), handed.token, done("late")).await.is_err());
}

/// A renewal keeps the lease id, and its worker is at it: one that comes while the row is written counts.
#[tokio::test]
async fn a_worker_that_renews_while_its_requeue_is_written_down_keeps_its_lease() {
    for lease in [1, 60_000] {
        let bench = Bench::new().await;
        let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
        let handed = lease_one(&bench.queue).await.unwrap();
        bench.pass(300_000);
        let renewing = |_: GateEntry| async {
            bench.queue.renew(&acme(), id(1), handed.token, Millis(lease)).await?;
            // Over again, or not: what counts is that somebody is there.
            bench.pass(10);
            Ok(())
        };
        let pass = bench.queue.retry_stale(GateScope::All, enabled(), "op", |_| true, renewing).await.unwrap();
        assert_eq!((pass.requeued.len(), pass.skipped[0].reason), (0, Skip::LeaseTooYoung));
        assert!(lease_one(&bench.queue).await.is_none());
        assert_eq!(state(&bench.queue, 1).await.task.repairs, []);
        let _ = bench.queue.post(&acme(), id(1), handed.token, done("alive")).await.unwrap();
        assert_eq!(results(&bench.queue).await, [(id(1), "alive".to_owned())]);
    }
}

/// A renewal that has reached the deciding operation only.
#[tokio::test]
async fn a_renewal_that_died_half_way_counts_as_well() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let handed = lease_one(&bench.queue).await.unwrap();
    bench.pass(300_000);
    let (dying, cut) = bench.dying().await;
    cut.allow(1);
    assert!(dying.renew(&acme(), id(1), handed.token, Millis(60_000)).await.is_err());
    let report = pass(&bench.queue, enabled()).await;
    assert_eq!((report.requeued.len(), report.skipped[0].reason), (0, Skip::LeaseTooYoung));
    let _ = bench.queue.post(&acme(), id(1), handed.token, done("alive")).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_requeued() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let _leased = lease_one(&bench.queue).await.unwrap();
    bench.pass(300_000);
    let refuse = |_: GateEntry| async { Err(QueueError::Full { most: 0 }) };
    let refused = bench.queue.retry_stale(GateScope::All, enabled(), "op", |_| true, refuse).await;
    assert!(refused.is_err());
    assert_eq!(state(&bench.queue, 1).await.state, TaskStateName::Stale);
}
