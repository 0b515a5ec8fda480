//! Many at once: workers that wait, senders that flood, and one that stops.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use hapax_core::identity::Tenant;
use hapax_queue::{Handled, LeaseRequest, NewTask, QueueError, QueueSettings, TaskStateName, Worker};
use hapax_store::MemoryStore;
use tokio::sync::oneshot;

use crate::{slow::Slow, support::*};

fn from(sender: &str, number: u64) -> NewTask {
    NewTask::new(id(number), sender, "indexer", "index", json("null"))
}

/// A worker whose key lets it take from one sender only is told again and again that there is nothing: as many tasks of
/// another sender as are looked up at once lie before the one that is for it.
#[tokio::test]
async fn a_worker_of_one_sender_finds_its_task_behind_those_of_others() {
    let bench = Bench::new().await;
    for number in 0..600 {
        let _ = bench.queue.send(&acme(), from("loud", number)).await.unwrap();
    }
    let _ = bench.queue.send(&acme(), from("quiet", 1_000)).await.unwrap();
    let only = |wait| LeaseRequest {
        senders: Some(vec!["quiet".to_owned()]),
        wait,
        limit: 8,
        ..LeaseRequest::of("indexer", "narrow")
    };
    let taken = bench.queue.lease(&acme(), &only(Duration::ZERO)).await.unwrap();
    assert_eq!(taken.iter().map(|one| one.order.id).collect::<Vec<_>>(), [id(1_000)]);
    assert!(bench.queue.lease(&acme(), &only(Duration::ZERO)).await.unwrap().is_empty());
    // Given back it has its old place, and one that comes new is behind all.
    bench.queue.release(&acme(), id(1_000), taken[0].token).await.unwrap();
    let _ = bench.queue.send(&acme(), from("quiet", 1_001)).await.unwrap();
    let taken = bench.queue.lease(&acme(), &only(Duration::ZERO)).await.unwrap();
    assert_eq!(taken.len(), 2, "{taken:?}");
    let waits = {
        let (queue, request) = (bench.queue.clone(), only(Duration::from_secs(60)));
        tokio::spawn(async move { queue.lease(&acme(), &request).await.unwrap() })
    };
    tokio::task::yield_now().await;
    let _ = bench.queue.send(&acme(), from("quiet", 1_002)).await.unwrap();
    assert_eq!(waits.await.unwrap()[0].order.id, id(1_002));
    // Whoever takes from all still has all of the others', in their order.
    let all = LeaseRequest { limit: 256, ..LeaseRequest::of("indexer", "all") };
    assert_eq!(bench.queue.lease(&acme(), &all).await.unwrap()[0].order.id, id(0));
}

/// One tenant sends until nothing more fits, and every other tenant is told that the queue is full.
#[tokio::test]
async fn a_flood_by_one_tenant_leaves_room_for_the_others() {
    let settings = QueueSettings { max_tasks: 30, ..QueueSettings::default() };
    let queue = queue_with(Arc::new(MemoryStore::default()), settings).await;
    let globex = Tenant::new("globex").unwrap();
    let mut sent = 0;
    while queue.send(&acme(), task(sent)).await.is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 3, "a tenth");
    let refused = queue.send(&acme(), task(sent)).await.unwrap_err();
    assert!(matches!(refused, QueueError::TenantFull { most: 3 }) && refused.is_passing(), "{refused}");
    let _ = queue.send(&globex, task(0)).await.unwrap();
}

/// A worker is told to stop while the write of its lease is under way. The call was dropped, the write landed all the
/// same, and the task was leased by nobody: only a person could put it back.
#[tokio::test]
async fn a_stop_while_a_lease_is_written_strands_no_task() {
    for make in [task, |number| keyed(number, "k")] {
        let bench = Bench::new().await;
        let slow = Slow::over(bench.store.clone());
        slow.hold();
        let queue = queue_on(slow.clone()).await;
        let _ = bench.queue.send(&acme(), make(1)).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let leasing = {
            let queue = queue.clone();
            tokio::spawn(async move {
                let request = LeaseRequest { wait: Duration::from_secs(60), ..LeaseRequest::of("indexer", "w") };
                let stop = async { stopped.await.unwrap() };
                queue.lease_until(&acme(), &request, stop).await.unwrap()
            })
        };
        slow.reached.acquire().await.unwrap().forget();
        stop.send(()).unwrap();
        slow.let_go();
        let handed = leasing.await.unwrap();
        assert_eq!(handed.len(), 1, "what is leased is told to whoever asked");
        let _ = queue.post(&acme(), id(1), handed[0].token, done("ok")).await.unwrap();
    }
}

/// The same with the helper: it ends after the task at hand, which it has handled.
#[tokio::test]
async fn a_worker_that_is_stopped_while_it_leases_handles_what_it_took() {
    let bench = Bench::new().await;
    let slow = Slow::over(bench.store.clone());
    slow.hold();
    let queue = queue_on(slow.clone()).await;
    let _ = bench.queue.send(&acme(), task(1)).await.unwrap();
    let worker = Worker::new(&queue, &acme(), "indexer", "w");
    let running = {
        let worker = worker.clone();
        tokio::spawn(async move { worker.run(|_| async { Handled::Completed("ok".into()) }).await.unwrap() })
    };
    slow.reached.acquire().await.unwrap().forget();
    worker.stop();
    slow.let_go();
    assert_eq!(running.await.unwrap().posted, 1);
    assert_eq!(state(&bench.queue, 1).await.state, TaskStateName::ResultPending);
}

/// A send wakes everybody who waits. One of them gets the task; a hundred others each asked the store for the same list
/// to find it empty.
#[tokio::test]
async fn a_ring_does_not_make_every_waiting_worker_scan() {
    let bench = Bench::new().await;
    let counted = Slow::over(bench.store.clone());
    let queue = queue_on(counted.clone()).await;
    let waiting: Vec<_> = (0..100)
        .map(|_| {
            let queue = queue.clone();
            let request = LeaseRequest { wait: Duration::from_secs(60), ..LeaseRequest::of("indexer", "w") };
            tokio::spawn(async move { queue.lease(&acme(), &request).await.unwrap() })
        })
        .collect();
    while counted.scans.load(SeqCst) < 100 {
        tokio::task::yield_now().await;
    }
    let before = counted.scans.load(SeqCst);
    for number in 0..100 {
        let _ = queue.send(&acme(), task(number)).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut taken = std::collections::BTreeSet::new();
    for worker in waiting {
        taken.insert(worker.await.unwrap()[0].order.id);
    }
    assert_eq!(taken.len(), 100, "each has a task of its own");
    let scans = counted.scans.load(SeqCst) - before;
    assert!(scans < 1_000, "{scans} scans for 100 tasks");
}
