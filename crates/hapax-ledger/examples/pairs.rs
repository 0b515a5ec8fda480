//! Durable begin+complete pairs a second: the ledger against the same log without rules, alternating.
//!
//! `cargo run --release -p hapax-ledger --example pairs [seconds] [rounds] [spares]`

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use hapax_core::{Id, Millis, Tag, Version};
use hapax_ledger::{Ledger, Options, RawLog};
use hapax_store::{Counted, Due, Envelope, Kind, Store, Swap};

const BEGIN: usize = 288;
const COMPLETE: usize = 1_312;

fn id(number: u64) -> Id {
    let mut bytes = [0; 32];
    for (at, chunk) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *chunk = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * at as u64).to_le_bytes();
    }
    Id(bytes)
}

fn envelope(payload: Bytes, live: bool) -> Envelope {
    Envelope {
        kind: Kind::OPERATION,
        surface: Tag([1; 16]),
        tenant: Tag([2; 16]),
        counted: Counted::Record,
        lease_end: live.then_some(Due::After(Millis::from_secs(60))),
        expiry: (!live).then_some(Due::After(Millis::from_hours(24))),
        gone: (!live).then_some(Due::After(Millis::from_hours(25))),
        in_doubt: false,
        entries: Vec::new(),
        payload,
    }
}

async fn ledger_pair(ledger: &Ledger, number: u64, begin: &Bytes, complete: &Bytes) -> Option<()> {
    let id = id(number);
    let begun = ledger.swap(&id, Version::NEVER, Some(envelope(begin.clone(), true))).await.ok()?;
    let Swap::Swapped { version, .. } = begun else { return None };
    let done = ledger.swap(&id, version, Some(envelope(complete.clone(), false))).await.ok()?;
    matches!(done, Swap::Swapped { .. }).then_some(())
}

async fn raw_pair(log: &RawLog, number: u64, begin: &Bytes, complete: &Bytes) -> Option<()> {
    log.append(id(number), begin.clone()).await.ok()?;
    log.append(id(number), complete.clone()).await.ok()?;
    Some(())
}

enum Peer {
    Ledger(Ledger),
    Raw(RawLog),
}

fn run(ours: bool, tasks: usize, time: Duration, spares: usize) -> (f64, Duration, Duration) {
    let path = PathBuf::from(std::env::var("HAPAX_BENCH_DIR").unwrap_or_else(|_| "/tmp".into())).join("hapax-pairs");
    let _ = std::fs::remove_dir_all(&path);
    let options = Options::new(&path).spares(spares);
    let peer = if ours { Ledger::open_with(options).map(Peer::Ledger) } else { RawLog::open(&options).map(Peer::Raw) };
    let Ok(peer) = peer else { return (0.0, Duration::ZERO, Duration::ZERO) };
    let peer = Arc::new(peer);
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build() else {
        return (0.0, Duration::ZERO, Duration::ZERO);
    };
    let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (begin, complete) = (Bytes::from(vec![5; BEGIN]), Bytes::from(vec![6; COMPLETE]));
    let since = Instant::now();
    let mut took: Vec<Duration> = runtime.block_on(async {
        let all: Vec<_> = (0..tasks)
            .map(|_| {
                let (peer, stop, next) = (peer.clone(), stop.clone(), next.clone());
                let (begin, complete) = (begin.clone(), complete.clone());
                tokio::spawn(async move {
                    let mut took = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let since = Instant::now();
                        let done = match &*peer {
                            Peer::Ledger(ledger) => ledger_pair(ledger, number, &begin, &complete).await,
                            Peer::Raw(log) => raw_pair(log, number, &begin, &complete).await,
                        };
                        if done.is_none() {
                            break;
                        }
                        took.push(since.elapsed());
                    }
                    took
                })
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let mut took = Vec::new();
        for one in all {
            took.extend(one.await.unwrap_or_default());
        }
        took
    });
    let rate = took.len() as f64 / since.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |share: usize| took.get(took.len().saturating_sub(1) * share / 100).copied().unwrap_or_default();
    let result = (rate, at(50), at(99));
    drop(peer);
    let _ = std::fs::remove_dir_all(&path);
    result
}

fn main() {
    let argument = |at: usize, default: f64| std::env::args().nth(at).and_then(|s| s.parse().ok()).unwrap_or(default);
    let (seconds, rounds, spares) = (argument(1, 2.0), argument(2, 3.0) as usize, argument(3, 0.0) as usize);
    let only = argument(4, 0.0) as usize;
    for tasks in [1, 16, 64, 256, 1024].into_iter().filter(|tasks| only == 0 || *tasks == only) {
        let mut results = [Vec::new(), Vec::new()];
        for round in 0..rounds * 2 {
            let ours = round % 2 == 0;
            results[usize::from(!ours)].push(run(ours, tasks, Duration::from_secs_f64(seconds), spares));
        }
        let median = |all: &mut Vec<(f64, Duration, Duration)>| {
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            all[all.len() / 2]
        };
        let [mut ours, mut raw] = results;
        let (ours, raw) = (median(&mut ours), median(&mut raw));
        println!(
            "{tasks:>5} tasks: ledger {:>8.0}/s p50 {:>9.1?} p99 {:>9.1?} | raw {:>8.0}/s p50 {:>9.1?} p99 {:>9.1?} | ratio {:.2}",
            ours.0,
            ours.1,
            ours.2,
            raw.0,
            raw.1,
            raw.2,
            ours.0 / raw.0
        );
    }
}
