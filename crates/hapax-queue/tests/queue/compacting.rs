//! Compaction beside everything else, all at once.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use hapax_core::Token;
use hapax_queue::{
    Filter, Handed, LeaseRequest, NewTask, Queue, QueueError, RepairKind, RepairPosture, Sent, TaskId, TaskStateName,
};
use parking_lot::Mutex;

use crate::support::*;

const TASKS: u64 = 400;
const KEYS: u64 = 40;

/// What goes on: which leases were given up, whose results came late, and whether all is answered.
#[derive(Default)]
struct Run {
    given_up: Mutex<Vec<(TaskId, Token)>>,
    refused: AtomicU64,
    requeued: AtomicU64,
    over: AtomicBool,
}

/// Three in four are under a key, ten to each.
fn nth(number: u64) -> NewTask {
    if number.is_multiple_of(4) { task(number) } else { keyed(number, &format!("k{}", number % KEYS)) }
}

/// The same for all tasks of one key, whoever does them.
fn answer(handed: &Handed) -> String {
    match &handed.order.idempotency {
        Some(known) => format!("of {}", known.key),
        None => format!("of {}", handed.order.id),
    }
}

async fn work(queue: Queue, run: Arc<Run>, worker: u64) {
    let mut taken = worker;
    while !run.over.load(SeqCst) {
        let request = LeaseRequest { wait: Duration::from_millis(20), ..LeaseRequest::of("indexer", "w") };
        for handed in queue.lease(&acme(), &request).await.unwrap() {
            taken += 1;
            if taken.is_multiple_of(5) {
                run.given_up.lock().push((handed.order.id, handed.token));
                continue;
            }
            post(&queue, &run, &handed.order.id, handed.token, &answer(&handed)).await;
        }
    }
}

async fn post(queue: &Queue, run: &Run, task: &TaskId, token: Token, text: &str) {
    match queue.post(&acme(), *task, token, done(text)).await {
        Ok(_) | Err(QueueError::Busy(_)) => {}
        Err(QueueError::Fenced(_) | QueueError::OtherResult(_) | QueueError::Unknown(_)) => {
            run.refused.fetch_add(1, SeqCst);
        }
        Err(error) => panic!("{error}"),
    }
}

/// Puts back whatever is in flight, given up or not; then those who gave up come back with a result after all.
async fn mend(queue: Queue, run: Arc<Run>) {
    let leased = Filter { state: Some(TaskStateName::Leased), ..Filter::default() };
    while !run.over.load(SeqCst) {
        // On a slow machine no worker would ever be quick enough.
        let enough = run.requeued.load(SeqCst) >= 2 * TASKS;
        let left = if enough { 1 } else { 50 };
        for status in queue.status(&acme(), &leased, None, left).await.unwrap().items {
            if enough {
                break;
            }
            let kind = RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false };
            let (id, Some(lease)) = (status.task.order.id, status.lease_id) else { continue };
            match queue.repair(&acme(), id, lease, kind, "op", "it is taking too long").await {
                Ok(_) => _ = run.requeued.fetch_add(1, SeqCst),
                Err(QueueError::NotRepaired { .. } | QueueError::Busy(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let late = std::mem::take(&mut *run.given_up.lock());
        for (id, token) in late {
            post(&queue, &run, &id, token, "late and wrong").await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn compact(queue: Queue, run: Arc<Run>) -> u64 {
    let mut compacted = 0;
    while !run.over.load(SeqCst) {
        match queue.compact(None).await {
            Ok(done) => compacted += done.compacted,
            Err(QueueError::Busy(_)) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
    compacted
}

async fn receive(queue: Queue) -> BTreeMap<TaskId, String> {
    let mut received = BTreeMap::new();
    while received.len() < TASKS as usize {
        for delivery in queue.results(&acme(), "planner", 50, Duration::from_millis(20)).await.unwrap() {
            let earlier = received.insert(delivery.order.id, text(&delivery.outcome));
            assert_eq!(earlier, None, "acknowledged, and delivered again");
            queue.ack(&acme(), delivery.order.id).await.unwrap();
        }
    }
    received
}

/// Compaction runs while tasks are sent under shared keys, leased, put back, and answered by workers that had lost them. It
/// must drop nothing that is queued, leased or joined, and no answer that later sends rely on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn compaction_beside_everything_else_drops_nothing_and_keeps_the_cache() {
    let bench = Bench::new().await;
    let (queue, run) = (&bench.queue, Arc::new(Run::default()));
    let mut all = tokio::task::JoinSet::new();
    for worker in 0..4 {
        all.spawn(work(queue.clone(), run.clone(), worker));
    }
    all.spawn(mend(queue.clone(), run.clone()));
    let compacting = tokio::spawn(compact(queue.clone(), run.clone()));
    let receiving = tokio::spawn(receive(queue.clone()));
    for sender in 0..4 {
        let queue = queue.clone();
        all.spawn(async move {
            for number in (0..TASKS).filter(|number| number % 4 == sender) {
                while let Err(error) = queue.send(&acme(), nth(number)).await {
                    assert!(error.is_passing(), "{error}");
                }
                tokio::task::yield_now().await;
            }
        });
    }
    let received =
        tokio::time::timeout(Duration::from_secs(120), receiving).await.expect("a task was dropped").unwrap();
    run.over.store(true, SeqCst);
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
    let compacted = compacting.await.unwrap() + queue.compact(None).await.unwrap().compacted;
    assert_eq!((received.len() as u64, compacted), (TASKS, TASKS));
    assert!(run.requeued.load(SeqCst) > 0 && run.refused.load(SeqCst) > 0, "nothing was put back");
    // One key, one answer: for all who were answered, and for who asks from now on.
    for key in (0..KEYS).filter(|key| !key.is_multiple_of(4)) {
        let answers: Vec<&String> =
            (0..TASKS).filter(|number| number % KEYS == key).map(|number| &received[&id(number)]).collect();
        assert!(answers.iter().all(|one| *one == answers[0]), "k{key}: {answers:?}");
        match queue.send(&acme(), keyed(10_000 + key, &format!("k{key}"))).await.unwrap() {
            Sent::Replayed { outcome, .. } => assert_eq!(text(&outcome), *answers[0]),
            other => panic!("k{key}: {other:?}"),
        }
    }
}
