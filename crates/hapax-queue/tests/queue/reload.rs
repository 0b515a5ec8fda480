//! New policies while work is under way.

use hapax_core::{Preset, identity::Surface};
use hapax_engine::Policies;
use hapax_queue::{GatePolicy, GateScope, Posted, Queue, RepairKind, RepairPosture, TaskStateName};

use crate::support::*;

/// Under which leased work of class idempotent lapses to open.
fn unfit() -> Policies {
    let mut policies = Policies::default();
    let mut policy = Preset::A2a.policy();
    policy.on_lapse = [None; 5];
    policies.set(Surface::new("a2a").unwrap(), policy).unwrap();
    policies
}

/// A task that was leased under such a policy, and whose lease is over.
async fn lapsed() -> (Bench, hapax_queue::Handed) {
    let bench = Bench::new().await;
    bench.queue.engine().reload(unfit());
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let handed = lease_one(&bench.queue).await.unwrap();
    bench.pass(1_000_000);
    (bench, handed)
}

/// A retention is set for `a2a`, and with it, unseen, the way of all other surfaces to lapse. From then on every lease of
/// an idempotent task that ran out put its task back into the queue: nobody had said so, and nothing was written down.
#[tokio::test]
async fn a_reload_does_not_hand_leased_work_out_again() {
    assert!(Queue::check(&unfit()).is_err(), "whoever asks is told");
    let (bench, handed) = lapsed().await;
    let status = state(&bench.queue, 1).await;
    assert_eq!((status.state, status.task.attempt), (TaskStateName::Stale, 1));
    assert_eq!(bench.queue.roll_forward().await.unwrap(), 0);
    assert!(lease_one(&bench.queue).await.is_none(), "it is still its worker's");
    let posted = bench.queue.post(&acme(), handed.order.id, handed.token, done("late")).await.unwrap();
    assert_eq!(posted, Posted { already: false });
    assert_eq!(results(&bench.queue).await, [(id(1), "late".to_owned())]);
}

/// Such a lease was left to nobody: the operation was open, so there was nothing to fence, and the repair went round for
/// ever.
#[tokio::test]
async fn a_lease_that_a_reload_let_go_of_can_be_repaired() {
    let (bench, handed) = lapsed().await;
    let kind = RepairKind::Requeue { posture: RepairPosture::Idempotent, auto: false };
    let mended = bench.queue.repair(&acme(), id(1), handed.lease_id, kind, "operator", "gone").await.unwrap();
    assert_eq!(mended.repairs.len(), 1);
    let late = bench.queue.post(&acme(), handed.order.id, handed.token, done("late")).await;
    assert!(late.is_err(), "a repaired lease is over");
    let second = lease_one(&bench.queue).await.unwrap();
    assert_eq!(second.attempt, 2);
    let _ = bench.queue.post(&acme(), id(1), second.token, done("second")).await.unwrap();
    assert_eq!(results(&bench.queue).await, [(id(1), "second".to_owned())]);

    let (bench, _handed) = lapsed().await;
    let policy = GatePolicy { enabled: true, ..GatePolicy::default() };
    let report = bench.queue.retry_stale(GateScope::All, policy, "gate", |_| true, |_| async { Ok(()) }).await.unwrap();
    assert_eq!(report.requeued.len(), 1, "{report:?}");
    assert_eq!(lease_one(&bench.queue).await.unwrap().attempt, 2);
}
