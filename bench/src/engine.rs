//! A pair is one begin and one complete through the whole engine: rules, codec, quotas, events, memory store.

use std::{sync::Arc, time::Instant};

use hapax_engine::Engine;
use hapax_store::MemoryStore;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::{
    alloc,
    sample::{median, rounds},
    work::{PAIRS, make_pairs, replay_all},
};

pub(crate) fn run(seconds: f64) -> Value {
    let Ok(runtime) = Builder::new_current_thread().enable_time().build() else { return Value::Null };
    let body = bytes::Bytes::from(vec![7; 1024]);
    let (mut pairs, mut replays) = (Vec::new(), Vec::new());
    rounds(seconds, || {
        // A fresh store each round: the figure is about the engine, not about how a map grows.
        let Ok(engine) = Engine::builder(Arc::new(MemoryStore::default())).build() else { return };
        let scope = engine.surface("bench").tenant("acme");
        runtime.block_on(async {
            let start = Instant::now();
            make_pairs(&engine, &scope, &body).await;
            pairs.push(start.elapsed().as_secs_f64() * 1e6 / PAIRS as f64);
            let start = Instant::now();
            replay_all(&scope).await;
            replays.push(start.elapsed().as_secs_f64() * 1e6 / PAIRS as f64);
        });
    });
    let counted = alloc::counted("engine");
    json!({
        "bench": "engine",
        "unit": "µs",
        "ours": {
            "pair": median(&mut pairs),
            "replay": median(&mut replays),
            "pair, the fastest round": pairs.first(),
            "allocations a pair": counted["pair"],
            "allocations a replay": counted["replay"],
        },
        "peers": {},
        "ratios": {},
    })
}
