//! The queue's accidents from the list of accidents found on paper.

use hapax_queue::{QueueError, RepairKind, RepairPosture, Sent, TaskStateName};

use crate::support::*;

fn requeue() -> RepairKind {
    RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false }
}

/// The requeue is acknowledged; then the old worker's post completes the task, and the new worker does it again.
#[tokio::test]
async fn q1_a_requeue_fences_the_old_worker_before_it_is_acknowledged() {
    for make in [task, |number| keyed(number, "k")] {
        let bench = Bench::new().await;
        let queue = &bench.queue;
        let _ = queue.send(&acme(), make(1)).await.unwrap();
        let old = lease_one(queue).await.unwrap();
        queue.repair(&acme(), id(1), old.lease_id, requeue(), "op", "its worker is gone").await.unwrap();
        for _ in 0..2 {
            let late = queue.post(&acme(), id(1), old.token, done("late")).await;
            assert!(matches!(late, Err(QueueError::Fenced(_))), "{late:?}");
        }
        let status = state(queue, 1).await;
        assert_eq!(status.state, TaskStateName::Queued);
        assert_eq!(status.task.evidence.iter().map(|kept| text(&kept.outcome)).collect::<Vec<_>>(), ["late"]);
        let new = lease_one(queue).await.unwrap();
        assert_eq!((new.attempt, new.order.id), (2, id(1)));
        assert!(queue.renew(&acme(), id(1), old.token, hapax_core::Millis(1)).await.is_err());
        assert!(queue.release(&acme(), id(1), old.token).await.is_err());
        let error = queue.post(&acme(), id(1), old.token, hapax_queue::TaskResult::failed("late too")).await;
        assert!(matches!(error, Err(QueueError::Fenced(_))));
        let _ = queue.post(&acme(), id(1), new.token, done("new")).await.unwrap();
        assert_eq!(results(queue).await, [(id(1), "new".to_owned())]);
        assert_eq!(state(queue, 1).await.task.evidence.len(), 2);
    }
}

/// A lease writes the deciding record and the process dies before the task is marked. The task looks queued; without
/// rolling forward it would be handed out a second time, or never again.
#[tokio::test]
async fn q2_a_lease_that_died_between_its_two_writes_is_a_lease() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let (dying, cut) = bench.dying().await;
    cut.allow(1);
    assert!(dying.lease(&acme(), &hapax_queue::LeaseRequest::of("indexer", "w")).await.is_err());
    let queue = bench.again().await;
    assert!(lease_one(&queue).await.is_none(), "handed out twice");
    let status = state(&queue, 1).await;
    assert_eq!((status.state, status.task.attempt), (TaskStateName::Leased, 1));
    bench.pass(1_000_000);
    queue.repair(&acme(), id(1), status.lease_id.unwrap(), requeue(), "op", "gone").await.unwrap();
    let handed = lease_one(&queue).await.unwrap();
    assert_eq!((handed.attempt, handed.token.attempt), (2, 2));
}

/// A task joins another; that one ends in a forced error, which is never cached, and is compacted. The joined task would
/// never end.
#[tokio::test]
async fn q3_a_joined_task_ends_with_its_leader_before_that_is_compacted() {
    let bench = Bench::new().await;
    let queue = &bench.queue;
    let _ = queue.send(&acme(), keyed(1, "k")).await.unwrap();
    assert_eq!(queue.send(&acme(), keyed(2, "k")).await.unwrap(), Sent::Joined { leader: id(1), again: false });
    let handed = lease_one(queue).await.unwrap();
    assert!(lease_one(queue).await.is_none(), "a joined task is never leased");
    let force = RepairKind::ForceError { message: "given up".into() };
    queue.repair(&acme(), id(1), handed.lease_id, force, "op", "the machine burnt").await.unwrap();
    queue.ack(&acme(), id(1)).await.unwrap();
    let compacted = bench.again().await.compact(None).await.unwrap();
    assert_eq!(compacted.compacted, 1);
    assert_eq!(results(queue).await, [(id(2), "given up".to_owned())]);
    let hapax_queue::TaskState::Resolved(resolved) = state(queue, 2).await.task.state else { panic!("not resolved") };
    assert_eq!(resolved.how, hapax_queue::How::Joined(id(1)));
    // And the error was not cached.
    assert_eq!(queue.send(&acme(), keyed(3, "k")).await.unwrap(), Sent::Queued { again: false });
}
