//! The engine on one ledger, in this process.

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

use super::{ADMITTED, FLOODING, KEPT, Keys, ROOM, ROUNDS, Turns};
use crate::{alloc, sample::quantile, scratch::scratch};

pub(super) fn run(keys: Keys, seconds: f64) -> Result<Turns, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let path = scratch("flood");
    let ledger = Ledger::open_with(Options::new(&path)).map_err(|error| error.to_string())?;
    let policy = Policy {
        capacity: Capacity { per_tenant: KEPT, ..Capacity::of(ROOM, OnFull::EvictOldestFinal) },
        admission: Some(Admission { max_in_flight: 1_000, per_tenant: ADMITTED }),
        ..Preset::Standard.policy()
    };
    let engine =
        Engine::builder(Arc::new(ledger)).policy("bench", policy).build().map_err(|error| error.to_string())?;
    let turn = Duration::from_secs_f64((seconds / (2 * ROUNDS) as f64).max(0.2));
    let (mut turns, mut number) = (Turns::default(), 0);
    for round in 0..ROUNDS {
        let alone = runtime.block_on(business(&engine, turn, &mut number));
        let flood = Flood::start(&runtime, &engine, keys, round);
        let beside = runtime.block_on(business(&engine, turn, &mut number));
        let asked = flood.stop(&runtime);
        turns.note(alone, None, beside, asked, alloc::resident() as f64 / f64::from(1 << 20));
    }
    drop(engine);
    let _left = std::fs::remove_dir_all(&path);
    Ok(turns)
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
    fn start(runtime: &tokio::runtime::Runtime, engine: &Engine, keys: Keys, round: usize) -> Self {
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
                    one(&engine, &scope, keys, key).await;
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

async fn one(engine: &Engine, scope: &InScope, keys: Keys, key: u64) {
    match scope.clone().key(key).begin().await {
        Ok(Begun::Execute(ticket)) if keys == Keys::Busy => {
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
