//! A pair is one begin and one complete through the whole engine: rules, codec, quotas, events, memory store.

use std::sync::Arc;

use hapax_core::Outcome;
use hapax_engine::{Begun, Engine, InScope};
use hapax_store::MemoryStore;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::{
    alloc,
    sample::{median, rounds},
};

const PAIRS: u64 = 2_000;

pub(crate) fn run(seconds: f64) -> Value {
    let Ok(runtime) = Builder::new_current_thread().enable_time().build() else { return Value::Null };
    let body = bytes::Bytes::from(vec![7; 1024]);
    let (mut pairs, mut replays) = (Vec::new(), Vec::new());
    let (mut pair_allocations, mut replay_allocations) = (0.0, 0.0);
    rounds(seconds, || {
        // A fresh store each round: the figure is about the engine, not about how a map grows.
        let Ok(engine) = Engine::builder(Arc::new(MemoryStore::default())).build() else { return };
        let scope = engine.surface("bench").tenant("acme");
        runtime.block_on(async {
            let before = alloc::so_far().0;
            let mut failed = 0;
            let took = time_pairs(&engine, &scope, &body, &mut failed).await;
            assert_eq!(failed, 0, "every begin runs, every complete is taken");
            pair_allocations = (alloc::so_far().0 - before) as f64 / PAIRS as f64;
            pairs.push(took * 1e6 / PAIRS as f64);

            let before = alloc::so_far().0;
            let took = time_replays(&scope).await;
            replay_allocations = (alloc::so_far().0 - before) as f64 / PAIRS as f64;
            replays.push(took * 1e6 / PAIRS as f64);
        });
    });
    json!({
        "bench": "engine",
        "unit": "µs",
        "ours": {
            "pair": median(&mut pairs),
            "replay": median(&mut replays),
            "allocations a pair": pair_allocations,
            "allocations a replay": replay_allocations,
        },
        "peers": {},
        "ratios": {},
    })
}

async fn time_pairs(engine: &Engine, scope: &InScope, body: &bytes::Bytes, failed: &mut u32) -> f64 {
    let start = std::time::Instant::now();
    for key in 0..PAIRS {
        match scope.clone().key(key).begin().await {
            Ok(Begun::Execute(ticket)) => {
                let done = ticket.complete(engine, Outcome::success(body.clone())).await;
                *failed += u32::from(!done.is_ok_and(|stepped| stepped.is_done()));
            }
            Ok(Begun::Replay(_) | Begun::JoinedFailure(_) | Begun::Told(_)) | Err(_) => *failed += 1,
        }
    }
    start.elapsed().as_secs_f64()
}

async fn time_replays(scope: &InScope) -> f64 {
    let start = std::time::Instant::now();
    for key in 0..PAIRS {
        let replayed = scope.clone().key(key).begin().await;
        assert!(matches!(replayed, Ok(Begun::Replay(_))), "what was completed is replayed");
    }
    start.elapsed().as_secs_f64()
}
