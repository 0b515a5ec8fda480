//! A process dies between any two writes. The next reader rolls forward: no result is lost, none comes twice, nothing is
//! handed out twice.

use hapax_core::task::GateEntry;
use hapax_queue::{
    GatePolicy, GateScope, LeaseRequest, QueueError, RepairKind, RepairPosture, Sent, Skip, TaskState, TaskStateName,
};

use crate::support::*;

/// As many writes as any step here can make.
const MOST_WRITES: i64 = 8;

#[tokio::test]
async fn a_send_that_dies_anywhere_is_said_again_and_is_one_task() {
    for make in [task, |number| keyed(number, "k")] {
        for writes in 0..=MOST_WRITES {
            let bench = Bench::new().await;
            let (dying, cut) = bench.dying().await;
            cut.allow(writes);
            let whole = dying.send(&acme(), make(1)).await.is_ok();
            let queue = bench.again().await;
            if writes % 2 == 0 {
                // Somebody reads it before its sender comes back: with at least one write it is there, and whole.
                let handed = lease_one(&queue).await;
                assert_eq!(handed.is_some(), writes > 0, "{writes} writes");
                assert!(lease_one(&queue).await.is_none());
            }
            let again = queue.send(&acme(), make(1)).await.unwrap();
            assert_eq!(again, Sent::Queued { again: writes > 0 || whole }, "{writes} writes");
            if writes % 2 == 1 {
                assert!(lease_one(&queue).await.is_some() && lease_one(&queue).await.is_none());
            }
        }
    }
}

#[tokio::test]
async fn a_send_that_joins_and_dies_anywhere_ends_as_its_leader() {
    for (ends_first, writes) in (0..=MOST_WRITES).flat_map(|writes| [(true, writes), (false, writes)]) {
        let bench = Bench::new().await;
        let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
        let handed = lease_one(&bench.queue).await.unwrap();
        let (dying, cut) = bench.dying().await;
        cut.allow(writes);
        let _ = dying.send(&acme(), keyed(2, "k")).await;
        let queue = bench.again().await;
        if ends_first {
            let _ = queue.post(&acme(), id(1), handed.token, done("once")).await.unwrap();
            queue.ack(&acme(), id(1)).await.unwrap();
            queue.compact(None).await.unwrap();
        }
        let _ = queue.send(&acme(), keyed(2, "k")).await.unwrap();
        assert!(lease_one(&queue).await.is_none(), "done twice, {writes} writes");
        if !ends_first {
            let _ = queue.post(&acme(), id(1), handed.token, done("once")).await.unwrap();
        }
        let TaskState::Resolved(resolved) = state(&queue, 2).await.task.state else { panic!("{writes} writes: waits") };
        assert_eq!(text(&resolved.outcome), "once");
    }
}

#[tokio::test]
async fn a_lease_that_dies_anywhere_hands_out_at_most_once() {
    for make in [task, |number| keyed(number, "k")] {
        for writes in 0..=MOST_WRITES {
            let bench = Bench::new().await;
            let _ = bench.queue.send(&acme(), make(1)).await.unwrap();
            let (dying, cut) = bench.dying().await;
            cut.allow(writes);
            let _ = dying.lease(&acme(), &LeaseRequest::of("indexer", "w")).await;
            let queue = bench.again().await;
            let taken = lease_one(&queue).await;
            assert_eq!(taken.is_some(), writes == 0, "{writes} writes");
            let status = state(&queue, 1).await;
            assert_eq!((status.state, status.task.attempt), (TaskStateName::Leased, 1), "{writes} writes");
            assert!(status.lease_id.is_some(), "so that somebody can repair it");
        }
    }
}

/// An error at a later candidate does not take away what the worker holds by then.
#[tokio::test]
async fn a_lease_that_fails_half_way_hands_over_what_it_took() {
    let bench = Bench::new().await;
    for number in 1..=3 {
        let _ = bench.queue.send(&acme(), task(number)).await.unwrap();
    }
    let (dying, cut) = bench.dying().await;
    cut.allow(2);
    let asked = LeaseRequest { limit: 3, ..LeaseRequest::of("indexer", "w") };
    let handed = dying.lease(&acme(), &asked).await.unwrap();
    assert_eq!(handed.iter().map(|one| one.order.id).collect::<Vec<_>>(), [id(1), id(2)]);
    assert!(dying.lease(&acme(), &asked).await.is_err(), "with nothing in hand the error is told");
    assert_eq!(lease_one(&bench.again().await).await.unwrap().order.id, id(3));
}

#[tokio::test]
async fn a_post_that_dies_anywhere_loses_no_result_and_gives_none_twice() {
    let failed = || hapax_queue::TaskResult::failed("no");
    for make in [task, |number| keyed(number, "k")] {
        for (fails, writes) in (0..=MOST_WRITES).flat_map(|writes| [(true, writes), (false, writes)]) {
            let bench = Bench::new().await;
            let _ = bench.queue.send(&acme(), make(1)).await.unwrap();
            let handed = lease_one(&bench.queue).await.unwrap();
            let (dying, cut) = bench.dying().await;
            cut.allow(writes);
            let result = || if fails { failed() } else { done("ok") };
            let _ = dying.post(&acme(), id(1), handed.token, result()).await;
            let queue = bench.again().await;
            let status = state(&queue, 1).await;
            let resolved = matches!(status.task.state, TaskState::Resolved(_));
            assert_eq!(resolved, writes > 0, "{writes} writes");
            let already = queue.post(&acme(), id(1), handed.token, result()).await.unwrap().already;
            assert_eq!(already, writes > 0);
            let expected = if fails { "no" } else { "ok" };
            assert_eq!(results(&queue).await, [(id(1), expected.to_owned())]);
            queue.ack(&acme(), id(1)).await.unwrap();
            assert!(results(&queue).await.is_empty() && lease_one(&queue).await.is_none());
        }
    }
}

#[tokio::test]
async fn an_acknowledgement_finds_a_result_that_its_task_does_not_know_yet() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let handed = lease_one(&bench.queue).await.unwrap();
    let (dying, cut) = bench.dying().await;
    cut.allow(1);
    let _ = dying.post(&acme(), id(1), handed.token, done("ok")).await;
    bench.again().await.ack(&acme(), id(1)).await.unwrap();
    assert_eq!(state(&bench.queue, 1).await.state, TaskStateName::Delivered);
}

#[tokio::test]
async fn a_release_that_dies_anywhere_gives_it_back_once() {
    for make in [task, |number| keyed(number, "k")] {
        for writes in 0..=MOST_WRITES {
            let bench = Bench::new().await;
            let _ = bench.queue.send(&acme(), make(1)).await.unwrap();
            let handed = lease_one(&bench.queue).await.unwrap();
            let (dying, cut) = bench.dying().await;
            cut.allow(writes);
            let _ = dying.release(&acme(), id(1), handed.token).await;
            let queue = bench.again().await;
            queue.release(&acme(), id(1), handed.token).await.unwrap();
            let again = lease_one(&queue).await.unwrap();
            assert_eq!((again.attempt, again.token.attempt), (1, 2), "{writes} writes");
        }
    }
}

#[tokio::test]
async fn a_requeue_that_dies_anywhere_is_finished_by_the_next_reader() {
    for make in [task, |number| keyed(number, "k")] {
        for (late_first, writes) in (0..=MOST_WRITES).flat_map(|writes| [(true, writes), (false, writes)]) {
            let bench = Bench::new().await;
            let _ = bench.queue.send(&acme(), make(1)).await.unwrap();
            let old = lease_one(&bench.queue).await.unwrap();
            let kind = || RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false };
            let (dying, cut) = bench.dying().await;
            cut.allow(writes);
            let _ = dying.repair(&acme(), id(1), old.lease_id, kind(), "op", "why").await;
            let queue = bench.again().await;
            if late_first {
                // The old worker is the next reader.
                let late = queue.post(&acme(), id(1), old.token, done("late")).await;
                assert_eq!(late.is_err(), writes > 0, "{writes} writes");
            }
            let posted = late_first && writes == 0;
            let again = queue.repair(&acme(), id(1), old.lease_id, kind(), "op", "why").await;
            assert_eq!(again.is_ok(), !posted, "said again: {again:?}");
            let new = lease_one(&queue).await;
            assert_eq!(new.is_some(), !posted, "{writes} writes");
            if let Some(new) = new {
                assert_eq!(new.attempt, 2);
                let status = state(&queue, 1).await;
                assert_eq!(status.task.repairs.len(), 1, "one repair");
                assert_eq!((&*status.task.repairs[0].actor, &*status.task.repairs[0].reason), ("op", "why"));
                assert_eq!(status.task.evidence.len(), usize::from(late_first));
                let _ = queue.post(&acme(), id(1), new.token, done("new")).await.unwrap();
            }
            assert_eq!(results(&queue).await.len(), 1);
        }
    }
}

#[tokio::test]
async fn a_forced_error_that_dies_anywhere_is_a_forced_error_and_not_a_requeue() {
    for make in [task, |number| keyed(number, "k")] {
        for writes in 1..=MOST_WRITES {
            let bench = Bench::new().await;
            let _ = bench.queue.send(&acme(), make(1)).await.unwrap();
            let old = lease_one(&bench.queue).await.unwrap();
            let kind = RepairKind::ForceError { message: "given up".into() };
            let (dying, cut) = bench.dying().await;
            cut.allow(writes);
            let _ = dying.repair(&acme(), id(1), old.lease_id, kind, "op", "why").await;
            let queue = bench.again().await;
            assert!(lease_one(&queue).await.is_none(), "{writes} writes: run again");
            assert!(queue.post(&acme(), id(1), old.token, done("late")).await.is_err());
            let status = state(&queue, 1).await;
            assert_eq!(status.state, TaskStateName::ResultPending, "{writes} writes");
            assert_eq!(results(&queue).await, [(id(1), "given up".to_owned())]);
            assert_eq!(status.task.evidence.len(), 1);
        }
    }
}

/// Nobody asks for the task itself: its sender polls its results, and workers ask for work.
#[tokio::test]
async fn what_died_after_the_deciding_write_is_found_by_those_who_never_ask_for_the_task() {
    let requeue = || RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false };
    for step in ["post", "force_error", "requeue"] {
        let bench = Bench::new().await;
        let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
        let _ = bench.queue.send(&acme(), keyed(2, "l")).await.unwrap();
        let (old, other) = (lease_one(&bench.queue).await.unwrap(), lease_one(&bench.queue).await.unwrap());
        let (dying, cut) = bench.dying().await;
        cut.allow(1);
        let died = match step {
            "post" => dying.post(&acme(), id(1), old.token, done("ok")).await.is_err(),
            "requeue" => dying.repair(&acme(), id(1), old.lease_id, requeue(), "op", "why").await.is_err(),
            _ => {
                let kind = RepairKind::ForceError { message: "given up".into() };
                dying.repair(&acme(), id(1), old.lease_id, kind, "op", "why").await.is_err()
            }
        };
        assert!(died, "{step}");
        let queue = bench.again().await;
        assert!(results(&queue).await.is_empty() && lease_one(&queue).await.is_none(), "{step}: it is left behind");
        assert_eq!(queue.roll_forward().await.unwrap(), 1, "{step}");
        assert_eq!(queue.roll_forward().await.unwrap(), 0, "{step}: once is enough");
        let expected: &[_] = match step {
            "post" => &[(id(1), "ok".to_owned())],
            "force_error" => &[(id(1), "given up".to_owned())],
            _ => &[],
        };
        assert_eq!(results(&queue).await, expected, "{step}");
        let again = lease_one(&queue).await.map(|handed| (handed.order.id, handed.attempt));
        assert_eq!(again, (step == "requeue").then_some((id(1), 2)), "{step}");
        // Whoever is at work meanwhile does not notice.
        let _ = queue.post(&acme(), id(2), other.token, done("other")).await.unwrap();
    }
}

#[tokio::test]
async fn a_pass_of_the_gate_finds_the_result_of_a_post_that_died() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let handed = lease_one(&bench.queue).await.unwrap();
    let (dying, cut) = bench.dying().await;
    cut.allow(1);
    assert!(dying.post(&acme(), id(1), handed.token, done("ok")).await.is_err());
    let queue = bench.again().await;
    let policy = GatePolicy { enabled: true, ..GatePolicy::default() };
    let nothing = |_: GateEntry| async { Ok::<(), QueueError>(()) };
    let report = queue.retry_stale(GateScope::All, policy, "op", |_| true, nothing).await.unwrap();
    assert_eq!(report.skipped[0].reason, Skip::NotInFlight);
    assert_eq!(results(&queue).await, [(id(1), "ok".to_owned())]);
}

#[tokio::test]
async fn a_compaction_that_dies_anywhere_loses_no_answer() {
    for writes in 0..=MOST_WRITES {
        let bench = Bench::new().await;
        let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
        let _ = bench.queue.send(&acme(), keyed(2, "k")).await.unwrap();
        let handed = lease_one(&bench.queue).await.unwrap();
        let _ = bench.queue.post(&acme(), id(1), handed.token, hapax_queue::TaskResult::failed("no")).await.unwrap();
        bench.queue.ack(&acme(), id(1)).await.unwrap();
        let (dying, cut) = bench.dying().await;
        cut.allow(writes);
        let _ = dying.compact(None).await;
        let queue = bench.again().await;
        let TaskState::Resolved(resolved) = state(&queue, 2).await.task.state else { panic!("{writes} writes: waits") };
        assert_eq!(text(&resolved.outcome), "no");
        queue.compact(None).await.unwrap();
        assert_eq!(queue.send(&acme(), keyed(1, "k")).await.unwrap(), Sent::AlreadyResolved);
        assert_eq!(queue.send(&acme(), keyed(3, "k")).await.unwrap(), Sent::Queued { again: false });
    }
}
