//! The worker helper: lease, handle, post, with the lease renewed.

use std::{sync::Arc, time::Duration};

use hapax_core::Millis;
use hapax_queue::{Handled, TaskStateName, Worker};

use crate::support::*;

#[tokio::test]
async fn a_worker_handles_each_task_once_and_leaves_a_panic_alone() {
    let bench = Bench::new().await;
    for number in 0..20 {
        let _ = bench.queue.send(&acme(), keyed(number, &format!("k{number}"))).await.unwrap();
    }
    let worker = Worker::new(&bench.queue, &acme(), "indexer", "w");
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let running = {
        let (worker, seen) = (worker.clone(), seen.clone());
        tokio::spawn(async move {
            let handler = |task: hapax_queue::Handed| {
                let seen = seen.clone();
                async move {
                    seen.lock().push(task.forward_key.clone());
                    match seen.lock().len() {
                        3 => panic!("the handler breaks"),
                        5 => Handled::Failed("no".into()),
                        _ => Handled::CompletedJson(serde_json::json!({ "key": task.forward_key })),
                    }
                }
            };
            worker.run(handler).await.unwrap()
        })
    };
    let mut received = 0;
    while received < 19 {
        for delivery in bench.queue.results(&acme(), "planner", 100, Duration::from_secs(60)).await.unwrap() {
            bench.queue.ack(&acme(), delivery.order.id).await.unwrap();
            received += 1;
        }
    }
    worker.stop();
    let report = running.await.unwrap();
    assert_eq!((report.posted, report.unknown, report.refused), (19, 1, 0));
    let mut keys = seen.lock().clone();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 20, "each once, under its own key");
    assert_eq!(state(&bench.queue, 2).await.state, TaskStateName::Leased, "nobody knows what it did");
}

#[tokio::test]
async fn a_long_task_keeps_its_lease() {
    let bench = Bench::new().await;
    let _ = bench.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let worker = Worker::new(&bench.queue, &acme(), "indexer", "w").lease(Millis(30));
    let (finish, may) = tokio::sync::oneshot::channel::<()>();
    let may = Arc::new(tokio::sync::Mutex::new(Some(may)));
    let running = {
        let worker = worker.clone();
        tokio::spawn(async move {
            let handler = |_| {
                let may = may.clone();
                async move {
                    let may = may.lock().await.take().unwrap();
                    may.await.unwrap();
                    Handled::Completed("ok".into())
                }
            };
            worker.run(handler).await.unwrap()
        })
    };
    let renewed = |status: &hapax_queue::Status| match &status.task.state {
        hapax_queue::TaskState::Leased(leased) => leased.order,
        _ => 0,
    };
    let mut first = 0;
    let mut times = 0;
    // The store's clock stands still, so only a renewal moves its place among the leased.
    while times < 3 {
        let order = renewed(&state(&bench.queue, 1).await);
        if order > first {
            (first, times) = (order, times + 1);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    finish.send(()).unwrap();
    assert_eq!(bench.queue.results(&acme(), "planner", 1, Duration::from_secs(60)).await.unwrap().len(), 1);
    worker.stop();
    assert_eq!(running.await.unwrap().posted, 1);
}
