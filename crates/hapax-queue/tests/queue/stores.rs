//! The same on every store: memory, the embedded ledger, Redis, PostgreSQL.

use std::{sync::Arc, time::Duration};

use hapax_core::Millis;
use hapax_ledger::Ledger;
use hapax_queue::{
    Filter, GatePolicy, GateScope, LeaseRequest, Queue, QueueError, RepairKind, RepairPosture, Sent, TaskStateName,
};
use hapax_store::{MemoryStore, Store};
use hapax_testkit::{Postgres, Redis, TempDir};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_ledger_redis_and_postgres_behave_alike() {
    let dir = TempDir::new("queue");
    let (redis, postgres) = (Redis::forgetful(), Postgres::forgetful());
    let stores: [(&str, Arc<dyn Store>); 4] = [
        ("memory", Arc::new(MemoryStore::default())),
        ("ledger", Arc::new(Ledger::open(dir.path()).unwrap())),
        ("redis", Arc::new(hapax_redis::RedisStore::open(redis.url()).await.unwrap())),
        ("postgres", Arc::new(hapax_postgres::PostgresStore::open(postgres.url()).await.unwrap())),
    ];
    for (name, store) in stores {
        // Two processes on one store, where that can be; the answers are the same either way.
        let (one, two) = (queue_on(store.clone()).await, queue_on(store).await);
        println!("{name}");
        one_way(&one, &two).await;
        crowd(&one, &two).await;
    }
}

async fn one_way(one: &Queue, two: &Queue) {
    assert_eq!(one.send(&acme(), keyed(1, "k")).await.unwrap(), Sent::Queued { again: false });
    assert_eq!(two.send(&acme(), keyed(1, "k")).await.unwrap(), Sent::Queued { again: true });
    assert_eq!(two.send(&acme(), keyed(2, "k")).await.unwrap(), Sent::Joined { leader: id(1), again: false });
    let _ = one.send(&acme(), task(3)).await.unwrap();
    let asked = LeaseRequest { lease: Some(Millis(1)), ..LeaseRequest::of("indexer", "w") };
    let old = two.lease(&acme(), &asked).await.unwrap().pop().unwrap();
    assert_eq!(old.order.id, id(1), "the oldest first");
    // The lease is over at once, and nobody is handed it for that.
    let third = lease_one(one).await.unwrap();
    assert_eq!(third.order.id, id(3));
    assert!(lease_one(one).await.is_none() && lease_one(two).await.is_none());
    let policy = GatePolicy { enabled: true, min_lease_age: Millis(0), ..GatePolicy::default() };
    let tenant = acme();
    let report = loop {
        let nothing = |_| async { Ok::<(), QueueError>(()) };
        let report = two.retry_stale(GateScope::Tenant(&tenant), policy, "op", |_| true, nothing).await.unwrap();
        if !report.requeued.is_empty() {
            break report;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert_eq!(report.requeued[0].task, id(1));
    assert!(matches!(one.post(&acme(), id(1), old.token, done("late")).await, Err(QueueError::Fenced(_))));
    let new = lease_one(two).await.unwrap();
    assert_eq!((new.order.id, new.attempt), (id(1), 2));
    one.renew(&acme(), id(1), new.token, Millis(60_000)).await.unwrap();
    let _ = one.post(&acme(), id(1), new.token, done("once")).await.unwrap();
    let force = RepairKind::ForceError { message: "no".into() };
    two.repair(&acme(), id(3), third.lease_id, force, "op", "why").await.unwrap();
    let wrong = RepairKind::Requeue { posture: RepairPosture::Idempotent, auto: false };
    assert!(matches!(
        two.repair(&acme(), id(3), third.lease_id, wrong, "op", "why").await,
        Err(QueueError::NotRepaired { .. })
    ));
    assert_eq!(state(two, 2).await.state, TaskStateName::ResultPending, "it ended with its leader");
    let mut received = results(two).await;
    received.sort();
    let mut wanted = [(id(1), "once".to_owned()), (id(2), "once".to_owned()), (id(3), "no".to_owned())];
    wanted.sort();
    assert_eq!(received, wanted);
    for number in 1..=3 {
        one.ack(&acme(), id(number)).await.unwrap();
    }
    assert_eq!(two.compact(Some(&acme())).await.unwrap().compacted, 3);
    assert_eq!(one.compact(None).await.unwrap().looked_at, 0, "nothing to do");
    assert_eq!(one.send(&acme(), task(3)).await.unwrap(), Sent::AlreadyResolved);
    assert!(matches!(two.send(&acme(), keyed(4, "k")).await.unwrap(), Sent::Replayed { .. }), "the cache stays");
    let page = one.status(&acme(), &Filter::default(), None, 100).await.unwrap();
    assert_eq!(page.items.iter().map(|status| status.task.order.id).collect::<Vec<_>>(), [id(4)]);
    let compacted = Filter { state: Some(hapax_queue::TaskStateName::Compacted), ..Filter::default() };
    assert_eq!(one.status(&acme(), &compacted, None, 100).await.unwrap().items.len(), 3);
}

/// Many workers of two processes: each task is handed out once.
async fn crowd(one: &Queue, two: &Queue) {
    const TASKS: u64 = 120;
    for number in 100..100 + TASKS {
        let new = if number % 2 == 0 { task(number) } else { keyed(number, &format!("c{number}")) };
        let _ = one.send(&acme(), new).await.unwrap();
    }
    let handed = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let workers = (0..8).map(|number| {
        let queue = if number % 2 == 0 { one.clone() } else { two.clone() };
        let handed = handed.clone();
        tokio::spawn(async move {
            while let Some(task) = lease_one(&queue).await {
                handed.lock().push(task.order.id);
                let _ = queue.post(&acme(), task.order.id, task.token, done("ok")).await.unwrap();
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let mut handed = handed.lock().clone();
    handed.sort();
    let before = handed.len();
    handed.dedup();
    assert_eq!((handed.len(), before), (TASKS as usize, TASKS as usize));
}
