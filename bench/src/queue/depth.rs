//! How long one lease takes among a million queued tasks.

use std::{path::Path, sync::Arc, time::Instant};

use hapax_queue::LeaseRequest;

use super::ours::Ours;
use crate::sample::quantile;

const TASKS: usize = 1_000_000;
const SENDERS: usize = 256;
const LEASES: usize = 2_000;

/// The median and the 99th percentile, in milliseconds.
pub(super) async fn latency(path: &Path) -> (f64, f64) {
    let ours = Arc::new(Ours::open(path).await);
    let filling: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let ours = Arc::clone(&ours);
            tokio::spawn(async move {
                for _ in 0..TASKS.div_ceil(SENDERS) {
                    let task = match ours.task(&format!("sender {sender}")) {
                        Ok(task) => task,
                        Err(error) => panic!("{error}"),
                    };
                    if let Err(error) = ours.queue.send(&ours.tenant, task).await {
                        panic!("{error}");
                    }
                }
            })
        })
        .collect();
    for filled in filling {
        let _ended = filled.await;
    }
    let mut times = Vec::with_capacity(LEASES);
    for _ in 0..LEASES {
        let started = Instant::now();
        match ours.queue.lease(&ours.tenant, &LeaseRequest::of("worker", "bench")).await {
            Ok(handed) if handed.len() == 1 => times.push(started.elapsed().as_secs_f64() * 1_000.0),
            other => panic!("{other:?}"),
        }
    }
    let (p50, p99) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
    eprintln!("lease among {TASKS}: p50 {p50:.3} ms, p99 {p99:.3} ms");
    (p50, p99)
}
