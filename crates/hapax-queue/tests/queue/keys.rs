//! Idempotency keys: one execution, every sender answered, for as long as the result is kept.

use std::time::Duration;

use hapax_core::{Millis, Preset, Span, policy::Treatment};
use hapax_engine::Engine;
use hapax_queue::{How, Queue, QueueError, QueueSettings, Sent, TaskResult, TaskState};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_sent_at_once_by_many_is_done_once_and_answers_all() {
    for round in 0..20_u64 {
        let bench = Bench::new().await;
        let (one, two) = (bench.queue.clone(), bench.again().await);
        let sends = (0..6).map(|number| {
            let queue = if number % 2 == 0 { one.clone() } else { two.clone() };
            tokio::spawn(async move { queue.send(&acme(), keyed(number, "k")).await.unwrap() })
        });
        let mut leaders = 0;
        for send in sends.collect::<Vec<_>>() {
            match send.await.unwrap() {
                Sent::Queued { .. } => leaders += 1,
                Sent::Joined { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(leaders, 1, "round {round}");
        let handed = lease_one(&two).await.unwrap();
        assert!(lease_one(&one).await.is_none() && lease_one(&two).await.is_none());
        let _ = one.post(&acme(), handed.order.id, handed.token, done("once")).await.unwrap();
        // Before anybody looks at a single task: whoever waits for results does nothing else.
        let _leader_at_least = results(&one).await;
        assert_eq!(results(&one).await.len(), 6, "every sender is answered");
        for number in 0..6 {
            let TaskState::Resolved(resolved) = state(&one, number).await.task.state else { panic!("{number} waits") };
            assert_eq!(text(&resolved.outcome), "once");
        }
    }
}

#[tokio::test]
async fn a_cached_result_answers_at_once_after_restart_and_compaction_too() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let handed = lease_one(&bench.queue).await.unwrap();
    let long = "x".repeat(40_000);
    let _ = bench.queue.post(&acme(), id(1), handed.token, done(&long)).await.unwrap();
    bench.queue.ack(&acme(), id(1)).await.unwrap();
    for number in 2..5 {
        let queue = bench.again().await;
        queue.compact(None).await.unwrap();
        bench.pass(100 * 86_400_000);
        queue.engine().sweep().await.unwrap();
        match queue.send(&acme(), keyed(number, "k")).await.unwrap() {
            Sent::Replayed { outcome, again: false } => assert_eq!(text(&outcome), long),
            other => panic!("{other:?}"),
        }
        match queue.send(&acme(), keyed(number, "k")).await.unwrap() {
            Sent::Replayed { again: true, .. } => {}
            other => panic!("{other:?}"),
        }
        let TaskState::Resolved(resolved) = state(&queue, number).await.task.state else { panic!() };
        assert_eq!(resolved.how, How::Replayed);
        queue.ack(&acme(), id(number)).await.unwrap();
        assert!(lease_one(&queue).await.is_none());
    }
    bench.queue.compact(None).await.unwrap();
    assert_eq!(bench.queue.send(&acme(), keyed(4, "k")).await.unwrap(), Sent::AlreadyResolved);
}

#[tokio::test]
async fn errors_and_partial_results_are_cached_only_if_the_policy_says_so() {
    for cached in [false, true] {
        let store = std::sync::Arc::new(hapax_store::MemoryStore::default());
        let mut policy = Preset::A2a.policy();
        if cached {
            policy.final_failure = Treatment::Replay(Span::Forever);
        }
        let engine = Engine::builder(store).policy("a2a", policy).build().unwrap();
        let queue = Queue::open(&engine, QueueSettings::default()).await.unwrap();
        for (number, result) in [(1, TaskResult::failed("no")), (3, TaskResult::partial(false, "half"))] {
            let key = format!("k{number}");
            let _ = queue.send(&acme(), keyed(number, &key)).await.unwrap();
            let handed = lease_one(&queue).await.unwrap();
            let _ = queue.post(&acme(), id(number), handed.token, result.clone()).await.unwrap();
            assert!(queue.post(&acme(), id(number), handed.token, result).await.unwrap().already);
            let sent = queue.send(&acme(), keyed(number + 1, &key)).await.unwrap();
            assert_eq!(matches!(sent, Sent::Replayed { .. }), cached, "{sent:?}");
            if !cached {
                let handed = lease_one(&queue).await.unwrap();
                let _ = queue.post(&acme(), handed.order.id, handed.token, done("now")).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn another_payload_under_a_key_is_refused_and_leaves_nothing() {
    let bench = Bench::new().await;
    let queue = &bench.queue;
    let other = |number| hapax_queue::NewTask { payload: json("{\"page\":8}"), ..keyed(number, "k") };
    let _ = queue.send(&acme(), keyed(1, "k")).await.unwrap();
    assert!(matches!(queue.send(&acme(), other(2)).await, Err(QueueError::KeyMismatch)), "while queued");
    let handed = lease_one(queue).await.unwrap();
    assert!(matches!(queue.send(&acme(), other(2)).await, Err(QueueError::KeyMismatch)), "while leased");
    let _ = queue.post(&acme(), id(1), handed.token, done("ok")).await.unwrap();
    assert!(matches!(queue.send(&acme(), other(2)).await, Err(QueueError::KeyMismatch)), "when done");
    assert!(matches!(queue.task(&acme(), id(2)).await, Err(QueueError::Unknown(_))), "nothing was left");
    let spaced = hapax_queue::NewTask { payload: json("{ \"page\": 7 }"), ..keyed(3, "k") };
    assert!(matches!(queue.send(&acme(), spaced).await.unwrap(), Sent::Replayed { .. }), "white space is no payload");
    let elsewhere = hapax_queue::NewTask { kind: "other".into(), ..other(4) };
    assert_eq!(
        queue.send(&acme(), elsewhere).await.unwrap(),
        Sent::Queued { again: false },
        "another kind, another key"
    );
    let mut foreign = other(5);
    foreign.sender.key = "stranger".into();
    assert_eq!(
        queue.send(&acme(), foreign).await.unwrap(),
        Sent::Queued { again: false },
        "two peers' keys never meet"
    );
}

#[tokio::test]
async fn a_retention_that_is_set_ends_the_cache_and_nothing_else() {
    let clock = std::sync::Arc::new(hapax_store::ManualClock::default());
    let store = std::sync::Arc::new(hapax_store::MemoryStore::new(clock.clone()));
    let mut policy = Preset::A2a.policy();
    policy.success = Span::For(Millis(3_600_000));
    let engine = Engine::builder(store).policy("a2a", policy).build().unwrap();
    let queue = Queue::open(&engine, QueueSettings::default()).await.unwrap();
    let _ = queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let handed = lease_one(&queue).await.unwrap();
    clock.advance(Millis(30 * 3_600_000));
    let _ = queue.post(&acme(), id(1), handed.token, done("one")).await.unwrap();
    assert!(matches!(queue.send(&acme(), keyed(2, "k")).await.unwrap(), Sent::Replayed { .. }));
    clock.advance(Millis(3_600_000));
    assert_eq!(queue.send(&acme(), keyed(3, "k")).await.unwrap(), Sent::Queued { again: false });
    let found = queue.results(&acme(), "planner", 10, Duration::ZERO).await.unwrap();
    assert_eq!(found.len(), 2, "results wait for their sender however long");
}
