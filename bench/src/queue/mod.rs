//! Send → lease → post → ack, durable, by 64 workers: our queue on the embedded ledger, and the same cycle on Redis
//! Streams with `appendfsync always` and on PostgreSQL with `SKIP LOCKED`. Then the latency of a lease among a million
//! queued tasks.

mod depth;
mod ours;
mod postgres;
mod streams;

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::sample::median;

pub(crate) const WORKERS: usize = 64;
/// What a task carries, and what its result does.
pub(crate) const PAYLOAD: usize = 256;

type Cycle<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One contender: a whole cycle of one task, durable at each step.
pub(crate) trait Cycles: Send + Sync + 'static {
    /// Worker `worker` sends a task, some worker's task is leased by it, its result posted, received and acknowledged.
    fn cycle(&self, worker: usize) -> Cycle<'_>;
}

/// Cycles a second by all workers together.
async fn measure(contender: Arc<dyn Cycles>, seconds: f64) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let started = Instant::now();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (contender, done) = (Arc::clone(&contender), Arc::clone(&done));
            tokio::spawn(async move {
                while Instant::now() < end {
                    contender.cycle(worker).await;
                    done.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    for worker in workers {
        let _ended = worker.await;
    }
    done.load(Relaxed) as f64 / started.elapsed().as_secs_f64()
}

pub(crate) fn run(seconds: f64) -> Value {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("{error}"),
    };
    runtime.block_on(all(seconds))
}

async fn all(seconds: f64) -> Value {
    let scratch = crate::scratch::scratch("queue");
    let ours: Arc<dyn Cycles> = Arc::new(ours::Ours::open(&scratch.join("ledger")).await);
    let (redis, postgres) = (hapax_testkit::Redis::start(), hapax_testkit::Postgres::start());
    let streams: Arc<dyn Cycles> = Arc::new(streams::Streams::open(&redis.url()).await);
    let skip_locked: Arc<dyn Cycles> = Arc::new(postgres::SkipLocked::open(&postgres.url()).await);
    let contenders = [("ours", ours), ("redis-streams", streams), ("postgres", skip_locked)];
    let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..5 {
        for (name, contender) in &contenders {
            let rate = measure(Arc::clone(contender), seconds / 5.0).await;
            eprintln!("{name:14} {rate:10.0} cycles/s");
            rates.entry(name).or_default().push(rate);
        }
    }
    drop(contenders);
    let case = WORKERS.to_string();
    let mut middle = |name: &str| rates.get_mut(name).map_or(f64::NAN, |rates| median(rates));
    let (mine, theirs) =
        (middle("ours"), [("redis-streams", middle("redis-streams")), ("postgres", middle("postgres"))]);
    let (p50, p99) = depth::latency(&scratch.join("deep")).await;
    let _removed = std::fs::remove_dir_all(&scratch);
    let peers: serde_json::Map<String, Value> =
        theirs.iter().map(|(name, rate)| ((*name).to_owned(), json!({ &case: rate }))).collect();
    let ratios: serde_json::Map<String, Value> =
        theirs.iter().map(|(name, rate)| (format!("{name}@{case}"), json!(mine / rate))).collect();
    json!({
        "bench": "queue",
        "unit": "cycles/s",
        "ours": { &case: mine, "lease_p50_ms_of_1M": p50, "lease_p99_ms_of_1M": p99 },
        "peers": peers,
        "ratios": ratios,
    })
}
