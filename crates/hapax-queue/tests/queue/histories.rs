//! Random histories of sends, leases, repairs, late results, acknowledgements, crashes and compactions.

use std::collections::{BTreeMap, BTreeSet};

use hapax_core::{Token, task::TaskId};
use hapax_queue::{
    GatePolicy, GateScope, Handed, LeaseRequest, Queue, QueueError, RepairKind, RepairPosture, Sent, TaskResult,
    TaskState,
};
use hapax_store::Seeded;

use crate::support::*;

const HISTORIES: u64 = 60;
const STEPS: u64 = 120;
const KEYS: u64 = 4;

/// What an onlooker knows.
#[derive(Default)]
struct Seen {
    sent: BTreeSet<u64>,
    next: u64,
    /// Leases that somebody holds, as far as they know.
    held: Vec<Handed>,
    /// Which lease of a task nobody has ended or taken back.
    open: BTreeMap<TaskId, Token>,
    /// Results that were accepted, by task.
    results: BTreeMap<TaskId, String>,
    /// Successful answers by key.
    cached: BTreeMap<u64, String>,
    acked: BTreeSet<TaskId>,
}

#[tokio::test]
async fn random_histories_keep_every_promise() {
    let first = Seeded::seed_or(1);
    let histories = if std::env::var_os("HAPAX_SEED").is_some() { 1 } else { HISTORIES };
    for seed in first..first + histories {
        let played = tokio::spawn(play(seed)).await;
        if let Err(error) = played {
            panic!("{error}; again with HAPAX_SEED={seed}");
        }
    }
}

const fn key_of(number: u64) -> Option<u64> {
    // One in four has no key.
    if number % 4 == 3 { None } else { Some(number % KEYS) }
}

fn new(number: u64) -> hapax_queue::NewTask {
    key_of(number).map_or_else(|| task(number), |key| keyed(number, &format!("k{key}")))
}

async fn play(seed: u64) {
    let mut dice = Seeded::new(seed);
    let bench = Bench::new().await;
    let mut seen = Seen::default();
    for _ in 0..STEPS {
        // Any of them may be the last thing that a process does.
        let (queue, cut) = bench.dying().await;
        if dice.chance(300) {
            cut.allow(dice.below(4) as i64);
        }
        match dice.below(12) {
            0..=2 => send(&queue, &mut seen, &mut dice).await,
            3 | 4 => lease(&queue, &mut seen).await,
            5 | 6 => post(&queue, &bench.queue, &mut seen, &mut dice).await,
            7 => repair(&queue, &bench.queue, &mut seen, &mut dice).await,
            8 => ack(&queue, &mut seen, &mut dice).await,
            9 => _ = queue.compact(None).await,
            10 => give_back(&queue, &bench.queue, &mut seen, &mut dice).await,
            _ => {
                bench.pass(dice.below(400_000));
                let policy = GatePolicy { enabled: true, max_attempts: 9, ..GatePolicy::default() };
                let nothing = |_| async { Ok::<(), QueueError>(()) };
                let _ = queue.retry_stale(GateScope::All, policy, "gate", |_| true, nothing).await;
                settle(&bench.queue, &mut seen).await;
            }
        }
        check(&bench.queue, &seen).await;
    }
    drain(&bench.queue, &mut seen).await;
}

async fn send(queue: &Queue, seen: &mut Seen, dice: &mut Seeded) {
    let number = if dice.chance(200) { dice.below(seen.next + 1) } else { seen.next };
    match queue.send(&acme(), new(number)).await {
        Ok(sent) => {
            if let (Sent::Replayed { outcome, .. }, Some(key)) = (&sent, key_of(number)) {
                let known = seen.cached.entry(key).or_insert_with(|| text(outcome));
                assert_eq!(*known, text(outcome), "an answer has changed");
                seen.results.insert(id(number), text(outcome));
            }
            seen.sent.insert(number);
        }
        Err(error) => assert!(matches!(error, QueueError::Engine(_)), "{error}"),
    }
    seen.next = seen.next.max(number + 1);
}

async fn lease(queue: &Queue, seen: &mut Seen) {
    let Ok(handed) = queue.lease(&acme(), &LeaseRequest::of("indexer", "w")).await else { return };
    for handed in handed {
        let before = seen.open.insert(handed.order.id, handed.token);
        assert!(before.is_none(), "{} was handed out twice", handed.order.id);
        seen.held.push(handed);
    }
}

async fn post(queue: &Queue, reader: &Queue, seen: &mut Seen, dice: &mut Seeded) {
    let Some(handed) = dice.pick(&seen.held).cloned() else { return };
    let task = handed.order.id;
    let fails = dice.chance(250);
    let words = format!("{task} {}", handed.token.attempt);
    let result = if fails { TaskResult::failed(&words) } else { done(&words) };
    let said = queue.post(&acme(), task, handed.token, result).await;
    let counted = seen.open.get(&task) == Some(&handed.token);
    match said {
        Ok(posted) if counted => {
            assert!(!posted.already);
            seen.results.insert(task, words.clone());
            let number = u64::from_be_bytes(task.0[8..].try_into().unwrap()) & 0xff;
            if let (false, Some(key)) = (fails, key_of(number)) {
                let before = seen.cached.insert(key, words);
                assert_eq!(before, None, "done twice under one key");
            }
        }
        Ok(posted) => assert!(posted.already, "a late result counted"),
        // Compacted tasks keep no evidence; everything else does.
        Err(QueueError::Fenced(_)) => {
            assert!(!counted, "the result of a lease that counts was refused");
            let kept = reader.task(&acme(), task).await.unwrap().task;
            let compacted = matches!(kept.state, TaskState::Compacted { .. });
            assert!(
                compacted || kept.evidence.iter().any(|one| text(&one.outcome) == words) || kept.evidence.len() == 4
            );
        }
        Err(QueueError::OtherResult(_)) => assert!(!counted),
        Err(_died) => {}
    }
    settle(reader, seen).await;
}

async fn repair(queue: &Queue, reader: &Queue, seen: &mut Seen, dice: &mut Seeded) {
    let Some(handed) = dice.pick(&seen.held).cloned() else { return };
    let kind = match dice.chance(500) {
        true => RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false },
        false => RepairKind::ForceError { message: "forced".into() },
    };
    let _ = queue.repair(&acme(), handed.order.id, handed.lease_id, kind, "op", "why").await;
    settle(reader, seen).await;
}

async fn give_back(queue: &Queue, reader: &Queue, seen: &mut Seen, dice: &mut Seeded) {
    let Some(handed) = dice.pick(&seen.held).cloned() else { return };
    let _ = queue.release(&acme(), handed.order.id, handed.token).await;
    settle(reader, seen).await;
}

async fn ack(queue: &Queue, seen: &mut Seen, dice: &mut Seeded) {
    let numbers: Vec<u64> = seen.sent.iter().copied().collect();
    let Some(number) = dice.pick(&numbers).copied() else { return };
    if queue.ack(&acme(), id(number)).await.is_ok() {
        seen.acked.insert(id(number));
    }
}

/// Which leases still count is asked of the queue itself; that none counts twice is what the rest checks.
async fn settle(reader: &Queue, seen: &mut Seen) {
    let open: Vec<(TaskId, Token)> = seen.open.iter().map(|(task, token)| (*task, *token)).collect();
    for (task, token) in open {
        let now = reader.task(&acme(), task).await.unwrap().task;
        match &now.state {
            TaskState::Leased(leased) if leased.token == token => {}
            // Taken back, or ended.
            _ => _ = seen.open.remove(&task),
        }
    }
}

async fn check(reader: &Queue, seen: &Seen) {
    for number in &seen.sent {
        let task = reader.task(&acme(), id(*number)).await.unwrap_or_else(|error| panic!("{number}: {error}")).task;
        if let TaskState::Compacted { .. } = task.state {
            assert!(seen.acked.contains(&id(*number)), "compacted before it was delivered");
        }
        if let (TaskState::Resolved(resolved), Some(told)) = (&task.state, seen.results.get(&id(*number))) {
            assert_eq!(&text(&resolved.outcome), told, "an answer has changed");
        }
    }
}

/// In the end every task ends, every result is received, and what was done under a key is answered from the cache.
async fn drain(queue: &Queue, seen: &mut Seen) {
    for _ in 0..10_000 {
        for handed in
            queue.lease(&acme(), &LeaseRequest { limit: 64, ..LeaseRequest::of("indexer", "w") }).await.unwrap()
        {
            let _ = queue.post(&acme(), handed.order.id, handed.token, done("drained")).await.unwrap();
        }
        let open: Vec<u64> = {
            let mut open = Vec::new();
            for number in &seen.sent {
                let task = queue.task(&acme(), id(*number)).await.unwrap();
                if let Some(lease) = task.lease_id {
                    let kind = RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false };
                    let _ = queue.repair(&acme(), id(*number), lease, kind, "op", "drain").await;
                }
                if task.task.is_live() {
                    open.push(*number);
                }
            }
            open
        };
        for (task, _) in results(queue).await {
            queue.ack(&acme(), task).await.unwrap();
        }
        queue.compact(None).await.unwrap();
        if open.is_empty() && results(queue).await.is_empty() {
            break;
        }
    }
    for number in &seen.sent {
        let task = queue.task(&acme(), id(*number)).await.unwrap().task;
        assert!(matches!(task.state, TaskState::Compacted { .. }), "{number} never ended: {task:?}");
        assert_eq!(queue.send(&acme(), new(*number)).await.unwrap(), Sent::AlreadyResolved);
    }
}

/// The loss that was traced in the original: lease, requeue, late result, drain, compact. Its late result marked the task
/// as resolved while it was queued again, and compaction dropped it.
#[tokio::test]
async fn a_late_result_and_a_compaction_do_not_drop_the_task_that_was_requeued() {
    for make in [task, |number| keyed(number, "k")] {
        let bench = Bench::new().await;
        let queue = &bench.queue;
        let _ = queue.send(&acme(), make(1)).await.unwrap();
        let old = lease_one(queue).await.unwrap();
        let kind = RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false };
        queue.repair(&acme(), id(1), old.lease_id, kind, "op", "stale").await.unwrap();
        assert!(queue.post(&acme(), id(1), old.token, done("late")).await.is_err());
        for (task, _) in results(queue).await {
            queue.ack(&acme(), task).await.unwrap();
        }
        assert_eq!(queue.compact(None).await.unwrap().compacted, 0);
        let new = lease_one(&bench.again().await).await.expect("the task was dropped");
        let _ = queue.post(&acme(), id(1), new.token, done("new")).await.unwrap();
        assert_eq!(results(queue).await, [(id(1), "new".to_owned())]);
    }
}
