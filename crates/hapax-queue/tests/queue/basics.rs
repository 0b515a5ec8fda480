//! One task's way, and what a sender or a worker may get wrong.

use std::{sync::Arc, time::Duration};

use hapax_core::{Millis, Token, WallMillis};
use hapax_engine::Engine;
use hapax_queue::{
    Filter, LeaseRequest, Queue, QueueError, QueueSettings, RepairKind, RepairPosture, Sent, TaskResult, TaskStateName,
};
use hapax_store::MemoryStore;

use crate::support::*;

#[tokio::test]
async fn a_task_goes_to_its_recipient_and_its_result_comes_back() {
    let bench = Bench::new().await;
    let queue = &bench.queue;
    assert_eq!(queue.send(&acme(), task(1)).await.unwrap(), Sent::Queued { again: false });
    assert!(results(queue).await.is_empty());
    let handed = lease_one(queue).await.unwrap();
    assert_eq!((handed.order.id, handed.attempt, handed.token.attempt), (id(1), 1, 1));
    assert!(lease_one(queue).await.is_none(), "handed out once");
    assert!(!queue.post(&acme(), id(1), handed.token, done("ok")).await.unwrap().already);
    assert!(queue.post(&acme(), id(1), handed.token, done("ok")).await.unwrap().already, "a lost reply");
    assert_eq!(results(queue).await, [(id(1), "ok".to_owned())]);
    assert_eq!(results(queue).await.len(), 1, "receiving twice loses nothing");
    queue.ack(&acme(), id(1)).await.unwrap();
    queue.ack(&acme(), id(1)).await.unwrap();
    assert!(results(queue).await.is_empty());
    assert_eq!(state(queue, 1).await.state, TaskStateName::Delivered);
}

#[tokio::test]
async fn restart_and_long_silence_never_hand_a_leased_task_out_again() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let _ = bench.queue.send(&acme(), task(2)).await.unwrap();
    let first = lease_one(&bench.queue).await.unwrap();
    let second = lease_one(&bench.queue).await.unwrap();
    for _ in 0..3 {
        bench.pass(365 * 86_400_000);
        let queue = bench.again().await;
        queue.engine().sweep().await.unwrap();
        queue.compact(None).await.unwrap();
        assert!(lease_one(&queue).await.is_none());
        for number in [1, 2] {
            let status = state(&queue, number).await;
            assert_eq!((status.state, status.task.attempt), (TaskStateName::Stale, 1));
        }
    }
    // Their workers may still come back.
    let queue = bench.again().await;
    for handed in [first, second] {
        queue.renew(&acme(), handed.order.id, handed.token, Millis(60_000)).await.unwrap();
        assert!(!queue.post(&acme(), handed.order.id, handed.token, done("late")).await.unwrap().already);
    }
    assert_eq!(results(&queue).await.len(), 2);
}

#[tokio::test]
async fn the_same_id_is_the_same_task() {
    let bench = Bench::new().await;
    let queue = &bench.queue;
    for make in [task, |number| keyed(number, "k")] {
        let number = u64::from(make(0).idempotency.is_some());
        assert_eq!(queue.send(&acme(), make(number)).await.unwrap(), Sent::Queued { again: false });
        assert_eq!(queue.send(&acme(), make(number)).await.unwrap(), Sent::Queued { again: true });
        let mut renamed = make(number);
        renamed.sender.display = "The planner".into();
        assert_eq!(queue.send(&acme(), renamed).await.unwrap(), Sent::Queued { again: true }, "equality is by key");
        let mut other = make(number);
        other.intent = "another".into();
        assert!(matches!(queue.send(&acme(), other).await, Err(QueueError::OtherContent(_))));
    }
    assert!(lease_one(queue).await.is_some() && lease_one(queue).await.is_some() && lease_one(queue).await.is_none());
}

#[tokio::test]
async fn what_cannot_be_a_task_is_refused() {
    let bench = Bench::new().await;
    type Spoil = fn(&mut hapax_queue::NewTask);
    let spoils: [(&str, Spoil); 8] = [
        ("kind", |task| task.kind = "  ".into()),
        ("sender", |task| task.sender.key = "".into()),
        ("recipient", |task| task.recipient.key = "a\nb".into()),
        ("idempotency key", |task| *task = task.clone().idempotent(" ")),
        ("idempotency key", |task| {
            *task = task.clone().idempotent("");
            task.idempotency.as_mut().unwrap().class = hapax_queue::Class::Unsafe;
        }),
        ("payload", |task| task.payload.bytes = vec![b'1'; 300 * 1024].into()),
        ("JSON", |task| task.payload.bytes = "{".into()),
        ("intent", |task| task.intent = "x".repeat(20_000)),
    ];
    for (what, spoil) in spoils {
        let mut spoiled = task(1);
        spoil(&mut spoiled);
        let error = bench.queue.send(&acme(), spoiled).await.unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("HX0110"), "{error}");
    }
    let wrong = LeaseRequest { limit: 0, ..LeaseRequest::of("indexer", "w") };
    assert!(matches!(bench.queue.lease(&acme(), &wrong).await, Err(QueueError::Invalid(_))));
    let none = Token { attempt: 1, nonce: hapax_core::Nonce([0; 16]) };
    assert!(matches!(bench.queue.post(&acme(), id(9), none, done("")).await, Err(QueueError::Unknown(_))));
    assert!(matches!(bench.queue.ack(&acme(), id(9)).await, Err(QueueError::Unknown(_))));
}

#[tokio::test]
async fn a_lost_answer_to_a_lease_is_had_again_by_its_name() {
    let bench = Bench::new().await;
    for number in 0..3 {
        let _ = bench.queue.send(&acme(), keyed(number, &format!("k{number}"))).await.unwrap();
    }
    let asked = LeaseRequest { limit: 2, request: Some([7; 16]), ..LeaseRequest::of("indexer", "worker") };
    let first = bench.queue.lease(&acme(), &asked).await.unwrap();
    let again = bench.again().await.lease(&acme(), &asked).await.unwrap();
    let tokens = |handed: &[hapax_queue::Handed]| {
        let mut all: Vec<_> = handed.iter().map(|one| (one.order.id, one.token.to_text())).collect();
        all.sort();
        all
    };
    assert_eq!(first.len(), 2);
    assert_eq!(tokens(&first), tokens(&again));
    let other = LeaseRequest { request: Some([8; 16]), ..asked };
    assert_eq!(bench.queue.lease(&acme(), &other).await.unwrap().len(), 1, "another call gets the rest");
}

#[tokio::test]
async fn a_waiting_worker_is_woken_by_a_send_a_release_and_a_repair() {
    let bench = Bench::new().await;
    let asked = LeaseRequest { wait: Duration::from_secs(60), ..LeaseRequest::of("indexer", "worker") };
    let wait = || {
        let (queue, asked) = (bench.queue.clone(), asked.clone());
        tokio::spawn(async move { queue.lease(&acme(), &asked).await.unwrap().pop().unwrap() })
    };
    let waiting = wait();
    tokio::task::yield_now().await;
    let _ = bench.queue.send(&acme(), task(1)).await.unwrap();
    let handed = waiting.await.unwrap();
    let waiting = wait();
    tokio::task::yield_now().await;
    bench.queue.release(&acme(), id(1), handed.token).await.unwrap();
    let handed = waiting.await.unwrap();
    assert_eq!((handed.attempt, handed.token.attempt), (1, 2), "a release does not count, its number does");
    let waiting = wait();
    tokio::task::yield_now().await;
    let kind = RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false };
    bench.queue.repair(&acme(), id(1), handed.lease_id, kind, "op", "gone").await.unwrap();
    assert_eq!(waiting.await.unwrap().attempt, 2);
    let results = {
        let queue = bench.queue.clone();
        tokio::spawn(async move { queue.results(&acme(), "planner", 1, Duration::from_secs(60)).await.unwrap() })
    };
    tokio::task::yield_now().await;
    let token = match state(&bench.queue, 1).await.task.state {
        hapax_queue::TaskState::Leased(leased) => leased.token,
        other => panic!("{other:?}"),
    };
    let _ = bench.queue.post(&acme(), id(1), token, done("ok")).await.unwrap();
    assert_eq!(results.await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_tenants_and_two_recipients_never_meet() {
    let bench = Bench::new().await;
    let other = hapax_core::identity::Tenant::new("other").unwrap();
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let _ = bench.queue.send(&other, keyed(1, "k")).await.unwrap();
    assert!(bench.queue.lease(&acme(), &LeaseRequest::of("writer", "w")).await.unwrap().is_empty());
    let ours = lease_one(&bench.queue).await.unwrap();
    let theirs = bench.queue.lease(&other, &LeaseRequest::of("indexer", "w")).await.unwrap().pop().unwrap();
    let _ = bench.queue.post(&acme(), id(1), ours.token, done("ours")).await.unwrap();
    assert!(bench.queue.post(&other, id(1), ours.token, done("x")).await.is_err());
    assert_eq!(results(&bench.queue).await.len(), 1);
    assert!(bench.queue.results(&other, "planner", 1, Duration::ZERO).await.unwrap().is_empty());
    let _ = bench.queue.post(&other, id(1), theirs.token, done("theirs")).await.unwrap();
    let page = bench.queue.status(&other, &Filter::default(), None, 10).await.unwrap();
    assert_eq!(page.items.len(), 1);
}

#[tokio::test]
async fn overdue_tasks_are_reported_and_end_only_where_the_policy_says_so() {
    for expire_overdue in [false, true] {
        let clock = Arc::new(hapax_store::ManualClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let queue = queue_with(store, QueueSettings { expire_overdue, ..QueueSettings::default() }).await;
        let wall = queue.engine().moment().wall;
        let late = |number| hapax_queue::NewTask { deadline: Some(WallMillis(wall.0 + 600_000)), ..task(number) };
        for number in 1..=2 {
            let _ = queue.send(&acme(), late(number)).await.unwrap();
        }
        assert!(!state(&queue, 1).await.overdue);
        clock.advance(Millis(600_001));
        let overdue = Filter { overdue: true, ..Filter::default() };
        assert_eq!(queue.status(&acme(), &overdue, None, 10).await.unwrap().items.len(), 2);
        assert_eq!(queue.expire_overdue().await.unwrap(), if expire_overdue { 2 } else { 0 });
        assert_eq!(lease_one(&queue).await.is_none(), expire_overdue);
        assert_eq!(results(&queue).await.len(), if expire_overdue { 2 } else { 0 });
    }
}

#[tokio::test]
async fn a_full_queue_says_so_and_takes_more_after_compaction() {
    let store = Arc::new(MemoryStore::default());
    let queue =
        queue_with(store, QueueSettings { max_tasks: 3, max_tasks_per_tenant: Some(3), ..QueueSettings::default() })
            .await;
    for number in 0..3 {
        let _ = queue.send(&acme(), task(number)).await.unwrap();
    }
    assert!(matches!(queue.send(&acme(), task(9)).await, Err(QueueError::TenantFull { most: 3 })));
    while let Some(handed) = lease_one(&queue).await {
        let _ = queue.post(&acme(), handed.order.id, handed.token, TaskResult::failed("no")).await.unwrap();
        queue.ack(&acme(), handed.order.id).await.unwrap();
    }
    assert_eq!(queue.compact(Some(&acme())).await.unwrap().compacted, 3);
    let _ = queue.send(&acme(), task(9)).await.unwrap();
}

#[tokio::test]
async fn a_policy_that_would_hand_work_out_again_is_refused() {
    let mut policy = hapax_core::Preset::A2a.policy();
    policy.on_lapse = [None; 5];
    let engine = Engine::builder(Arc::new(MemoryStore::default())).policy("a2a", policy).build().unwrap();
    let opened = Queue::open(&engine, QueueSettings::default()).await;
    assert!(matches!(opened, Err(QueueError::UnfitPolicy(_))));
}

/// Hundreds of tasks were done, acknowledged and compacted; their ids are kept for ninety days. The list began with them, so
/// that what is in flight now was on none of the pages that anybody looks at.
#[tokio::test]
async fn what_is_done_does_not_hide_what_is_in_flight_and_what_waits() {
    let bench = Bench::new().await;
    for number in 0..300 {
        let _ = bench.queue.send(&acme(), keyed(number, &format!("k{number}"))).await.unwrap();
        let handed = lease_one(&bench.queue).await.unwrap();
        let _ = bench.queue.post(&acme(), handed.order.id, handed.token, TaskResult::failed("no")).await.unwrap();
        bench.queue.ack(&acme(), handed.order.id).await.unwrap();
    }
    assert_eq!(bench.queue.compact(None).await.unwrap().compacted, 300);
    for number in 1_000..1_003 {
        let _ = bench.queue.send(&acme(), task(number)).await.unwrap();
    }
    let held = lease_one(&bench.queue).await.unwrap();
    let listed = async |filter: Filter, limit| {
        let page = bench.queue.status(&acme(), &filter, None, limit).await.unwrap();
        page.items.iter().map(|status| (status.task.order.id, status.state)).collect::<Vec<_>>()
    };
    let first = [(id(1_000), TaskStateName::Leased), (id(1_001), TaskStateName::Queued)];
    assert_eq!(held.order.id, id(1_000));
    assert_eq!(listed(Filter::default(), 2).await, first);
    assert_eq!(listed(Filter::default(), 200).await.len(), 3, "none of those that are done with");
    let compacted = Filter { state: Some(TaskStateName::Compacted), ..Filter::default() };
    assert_eq!(listed(compacted, 200).await.len(), 200, "unless they are asked for");
    // Whoever may see one of many is shown that one.
    let waits = Filter { state: Some(TaskStateName::Queued), ..Filter::default() };
    let last = |status: &hapax_queue::Status| status.task.order.id == id(1_002);
    let page = bench.queue.status_for(&acme(), &waits, None, 1, last).await.unwrap();
    assert_eq!(page.items.len(), 1);
}

#[tokio::test]
async fn status_pages_hold_every_task_once() {
    let bench = Bench::new().await;
    for number in 0..45 {
        let _ = bench.queue.send(&acme(), keyed(number, &format!("k{number}"))).await.unwrap();
    }
    let _leased = lease_one(&bench.queue).await.unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut after = None;
    loop {
        let page = bench.queue.status(&acme(), &Filter::default(), after.as_ref(), 10).await.unwrap();
        assert!(page.items.len() <= 10);
        seen.extend(page.items.iter().map(|status| status.task.order.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), 45);
    let leased = Filter { state: Some(TaskStateName::Leased), ..Filter::default() };
    let found = bench.queue.status(&acme(), &leased, None, 200).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].task.order.idempotency.as_ref().unwrap().class.name(), "idempotent", "metadata is told");
    for filter in [
        Filter { kind: Some("other".into()), ..Filter::default() },
        Filter { peer: Some("stranger".into()), ..Filter::default() },
        Filter { min_lease_age: Some(Millis(1)), ..Filter::default() },
        Filter { overdue: true, ..Filter::default() },
    ] {
        assert!(bench.queue.status(&acme(), &filter, None, 200).await.unwrap().items.is_empty(), "{filter:?}");
    }
}
