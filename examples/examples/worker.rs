//! A planner sends pages to an indexer. One worker dies over a page; the page is not handed out again until somebody says
//! so, and the dead worker's late result does not count. A page sent twice under one key is indexed once.
//!
//! Run it with `cargo run --example worker`; it keeps its ledger in a directory of its own and removes it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use hapax::{
    Hapax,
    identity::Tenant,
    queue::{
        Handled, LeaseRequest, NewTask, Payload, Queue, QueueError, QueueSettings, RepairKind, RepairPosture, Sent,
        TaskId, TaskResult, Worker,
    },
};
use serde_json::json;

fn page(queue: &Queue, number: u32) -> Result<NewTask, Box<dyn std::error::Error>> {
    let id = TaskId::random(queue.engine().nonce()?.0);
    let payload = Payload { json: true, bytes: json!({ "page": number }).to_string().into() };
    Ok(NewTask::new(id, "planner", "indexer", "index", payload).idempotent(&format!("page-{number}")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("hapax-worker-{}", std::process::id()));
    let hapax = Hapax::open(&directory)?;
    let acme = Tenant::new("acme")?;
    let queue = Queue::open(&hapax, QueueSettings::default()).await?;

    // A worker takes a page and is never heard of again.
    let first = page(&queue, 1)?;
    let id = first.id;
    assert_eq!(queue.send(&acme, first).await?, Sent::Queued { again: false });
    let dead = queue.lease(&acme, &LeaseRequest::of("indexer", "worker that dies")).await?.remove(0);
    println!("leased by a worker that dies: lease {}", dead.lease_id);
    assert!(queue.lease(&acme, &LeaseRequest::of("indexer", "another")).await?.is_empty());

    // A person takes the lease back, and says why that is safe.
    let requeue = RepairKind::Requeue { posture: RepairPosture::Idempotent, auto: false };
    queue.repair(&acme, id, dead.lease_id, requeue, "operator", "its machine is gone").await?;

    // From here on workers do the work; the second page is sent twice under one key.
    let indexed = Arc::new(AtomicU32::new(0));
    let worker = Worker::new(&queue, &acme, "indexer", "worker that lives");
    let working = tokio::spawn({
        let (worker, indexed) = (worker.clone(), Arc::clone(&indexed));
        async move {
            worker
                .run(move |task| {
                    indexed.fetch_add(1, SeqCst);
                    // `task.forward_key` goes along with every call that takes an idempotency key.
                    async move { Handled::CompletedJson(json!({ "indexed": task.forward_key, "attempt": task.attempt })) }
                })
                .await
        }
    });
    let _queued = queue.send(&acme, page(&queue, 2)?).await?;
    let _joined_or_replayed = queue.send(&acme, page(&queue, 2)?).await?;

    let mut received = 0;
    while received < 3 {
        for delivery in queue.results(&acme, "planner", 10, Duration::from_secs(30)).await? {
            println!("result of {}: {:?}", delivery.order.id, delivery.how);
            queue.ack(&acme, delivery.order.id).await?;
            received += 1;
        }
    }
    // The dead worker wakes up: its result is refused, and kept where one can see it.
    let late = queue.post(&acme, id, dead.token, TaskResult::completed(false, "too late")).await;
    assert!(matches!(late, Err(QueueError::Fenced(_))));
    println!("the late result was refused; kept as evidence: {}", queue.task(&acme, id).await?.task.evidence.len());

    worker.stop();
    let report = working.await??;
    println!("{} results posted for three sends, {} pages indexed", report.posted, indexed.load(SeqCst));
    assert_eq!(indexed.load(SeqCst), 2);
    drop((queue, hapax));
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
