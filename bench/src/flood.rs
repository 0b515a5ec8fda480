//! One tenant floods, with distinct keys and with keys that are answered 503; another goes about its business. What the
//! other's slowest of a hundred takes without and with the flood, in turns on one ledger, and whether memory stays bounded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use hapax_core::{
    Outcome, OutcomeClass, Policy, Preset,
    policy::{Admission, Capacity, OnFull},
};
use hapax_engine::{Begun, Engine, InScope};
use hapax_ledger::{Ledger, Options};
use serde_json::{Value, json};

use crate::{
    alloc,
    sample::{median, quantile},
    scratch::scratch,
};

const ROUNDS: usize = 7;
/// How many the flooding tenant has under way at once: as many as its admission allows, and as many again.
const FLOODING: usize = 16;
const ADMITTED: u32 = 8;
/// What one tenant may keep.
const KEPT: u64 = 20_000;

pub(crate) fn run(seconds: f64) -> Value {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() else {
        return Value::Null;
    };
    let path = scratch("flood");
    let Ok(ledger) = Ledger::open_with(Options::new(&path)) else { return Value::Null };
    let ledger = Arc::new(ledger);
    let policy = Policy {
        capacity: Capacity { per_tenant: KEPT, ..Capacity::of(1_000_000, OnFull::EvictOldestFinal) },
        admission: Some(Admission { max_in_flight: 1_000, per_tenant: ADMITTED }),
        ..Preset::Standard.policy()
    };
    let Ok(engine) =
        Engine::builder(Arc::clone(&ledger) as Arc<dyn hapax_store::Store>).policy("bench", policy).build()
    else {
        return Value::Null;
    };
    let turn = Duration::from_secs_f64((seconds / (2 * ROUNDS) as f64).max(0.2));
    let (mut quiet, mut flooded, mut asked) = (Vec::new(), Vec::new(), 0);
    let mut number = 0;
    let mut grown = Vec::new();
    for round in 0..ROUNDS {
        let alone = runtime.block_on(business(&engine, turn, &mut number));
        let flood = Flood::start(&runtime, &engine, round);
        let beside = runtime.block_on(business(&engine, turn, &mut number));
        asked += flood.stop(&runtime);
        eprintln!("round {round}: p99 {alone:6.3} ms alone, {beside:6.3} ms beside the flood, {asked} asked so far");
        quiet.push(alone);
        flooded.push(beside);
        grown.push(alloc::resident() as f64);
    }
    let held = ledger.status().slots;
    drop((engine, ledger));
    let _left = std::fs::remove_dir_all(&path);
    let ratios: Vec<f64> = flooded.iter().zip(&quiet).map(|(beside, alone)| beside / alone).collect();
    json!({
        "bench": "flood",
        "unit": "ms",
        "ours": {
            "p99 alone": median(&mut quiet),
            "p99 beside the flood": median(&mut flooded),
            "requests of the flood": asked,
            "records and versions kept": held,
            "resident bytes after the first turn": grown.first(),
            "resident bytes after the last turn": grown.last(),
        },
        "peers": {},
        "ratios": { "p99 beside the flood to alone, median of turns": median(&mut ratios.clone()) },
    })
}

/// One call after the other, each with a pause, as a customer would: the slowest of a hundred, in milliseconds.
async fn business(engine: &Engine, turn: Duration, number: &mut u64) -> f64 {
    let scope = engine.surface("bench").tenant("quiet");
    let end = Instant::now() + turn;
    let mut took = Vec::new();
    while Instant::now() < end {
        *number += 1;
        let start = Instant::now();
        match scope.clone().key(*number).begin().await {
            Ok(Begun::Execute(ticket)) => {
                let done = ticket.complete(engine, Outcome::success("done")).await;
                assert!(done.is_ok_and(|stepped| stepped.is_done()), "the quiet tenant is served");
            }
            other @ (Ok(Begun::Replay(_) | Begun::JoinedFailure(_) | Begun::Told(_)) | Err(_)) => {
                panic!("the quiet tenant was told {other:?}")
            }
        }
        took.push(start.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    quantile(&mut took, 0.99)
}

struct Flood {
    over: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Flood {
    fn start(runtime: &tokio::runtime::Runtime, engine: &Engine, round: usize) -> Self {
        let (over, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let scope = engine.surface("bench").tenant("flood");
        let tasks = (0..FLOODING).map(|task| {
            let (engine, scope) = (engine.clone(), scope.clone());
            let (over, asked) = (Arc::clone(&over), Arc::clone(&asked));
            runtime.spawn(async move {
                let mut key = ((round * FLOODING + task) as u64) << 40;
                while !over.load(Relaxed) {
                    key += 1;
                    asked.fetch_add(1, Relaxed);
                    one(&engine, &scope, key).await;
                }
            })
        });
        let tasks = tasks.collect();
        Self { over, asked, tasks }
    }

    fn stop(self, runtime: &tokio::runtime::Runtime) -> u64 {
        self.over.store(true, Relaxed);
        runtime.block_on(async {
            for task in self.tasks {
                let _ended = task.await;
            }
        });
        self.asked.load(Relaxed)
    }
}

/// A new key each time: every other one is answered 503, and stays open to be tried again.
async fn one(engine: &Engine, scope: &InScope, key: u64) {
    match scope.clone().key(key).begin().await {
        Ok(Begun::Execute(ticket)) if key.is_multiple_of(2) => {
            let busy = Outcome { class: OutcomeClass::RetryableFailure, status: 503, ..Outcome::success("busy") };
            let _failed = ticket.fail(engine, busy).await;
        }
        Ok(Begun::Execute(ticket)) => {
            let _done = ticket.complete(engine, Outcome::success("done")).await;
        }
        // Turned away: a client that does not wait comes again at once.
        Ok(Begun::Replay(_) | Begun::JoinedFailure(_) | Begun::Told(_)) | Err(_) => tokio::task::yield_now().await,
    }
}
