//! Deadlines, and leases that die around them.

use std::sync::Arc;

use hapax_core::{
    Effect, Millis, WallMillis,
    task::{TaskId, owner_of},
};
use hapax_queue::{LeaseRequest, NewTask, Queue, QueueSettings, RepairKind, RepairPosture, Sent, TaskStateName};
use hapax_store::{ManualClock, MemoryStore};

use crate::support::*;

async fn expiring() -> (Arc<ManualClock>, Arc<MemoryStore>, Queue) {
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let queue = queue_with(store.clone(), settings()).await;
    (clock, store, queue)
}

fn settings() -> QueueSettings {
    QueueSettings { expire_overdue: true, ..QueueSettings::default() }
}

/// A task under a key whose deadline is in ten minutes.
fn late(queue: &Queue, number: u64) -> NewTask {
    let at = queue.engine().moment().wall.0 + 600_000;
    NewTask { deadline: Some(WallMillis(at)), ..keyed(number, "k") }
}

/// A worker dies between the two writes of its lease. Then the deadline of the task passes, and the task ends as one that
/// nobody began; its operation stays as begun. Whoever used the key from then on joined that end, for ever.
#[tokio::test]
async fn a_lease_that_died_before_the_deadline_does_not_spoil_the_key() {
    for by_lease in [false, true] {
        let (clock, store, queue) = expiring().await;
        let _ = queue.send(&acme(), late(&queue, 1)).await.unwrap();
        let cut = Cut::over(store, i64::MAX);
        let dying = queue_with(cut.clone(), settings()).await;
        cut.allow(1);
        assert!(dying.lease(&acme(), &LeaseRequest::of("indexer", "w")).await.is_err());
        clock.advance(Millis(600_001));
        // Whoever comes first, the tidying up or a worker, finds that it was begun.
        match by_lease {
            false => assert_eq!(queue.expire_overdue().await.unwrap(), 0),
            true => assert!(lease_one(&queue).await.is_none()),
        }
        let begun = state(&queue, 1).await;
        assert_eq!(begun.state, TaskStateName::Leased, "it was begun, and nobody knows more");
        assert_eq!(queue.send(&acme(), keyed(2, "k")).await.unwrap(), Sent::Joined { leader: id(1), again: false });
        let kind = RepairKind::Requeue { posture: RepairPosture::Idempotent, auto: false };
        let _ = queue.repair(&acme(), id(1), begun.lease_id.unwrap(), kind, "op", "it died").await.unwrap();
    }
}

/// The deadline passes in the very moment between the two writes of a lease that then dies: the task has ended, and the
/// attempt in its name is nobody's.
#[tokio::test]
async fn an_attempt_in_the_name_of_an_expired_task_is_given_back() {
    let (clock, _store, queue) = expiring().await;
    let _ = queue.send(&acme(), late(&queue, 1)).await.unwrap();
    clock.advance(Millis(600_001));
    assert_eq!(queue.expire_overdue().await.unwrap(), 1);
    queue.ack(&acme(), id(1)).await.unwrap();
    begin_for(&queue, id(1)).await;
    assert_eq!(queue.send(&acme(), keyed(2, "k")).await.unwrap(), Sent::Queued { again: false });
    let mut handed = lease_one(&queue).await;
    if handed.is_none() {
        handed = lease_one(&queue).await;
    }
    let handed = handed.expect("the key is free again");
    let _ = queue.post(&acme(), id(2), handed.token, done("ok")).await.unwrap();
    assert_eq!(results(&queue).await, [(id(2), "ok".to_owned())]);
}

/// What a lease writes first.
async fn begin_for(queue: &Queue, task: TaskId) {
    let order = state(queue, 1).await.task.order;
    let scope = queue.engine().surface("a2a").tenant(acme());
    let scope = scope.within("sender", "planner").within("recipient", "indexer").within("kind", "index");
    let call = scope.key("k").effect(Effect::Idempotent).fingerprinted(order.print.clone());
    let begun = call.owner(&owner_of(&task, "w")).begin().await.unwrap();
    assert!(matches!(begun, hapax_engine::Begun::Execute(_)), "{begun:?}");
}
