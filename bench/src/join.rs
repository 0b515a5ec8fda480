//! A thousand callers wait for one pending key; how long after its completion the last of them has its answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

use hapax_core::{Millis, Outcome};
use hapax_engine::{Begun, Engine, Wait};
use hapax_store::{MemoryStore, Store};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::{
    counting::CountingStore,
    sample::{median, quantile, rounds},
};

const WAITERS: usize = 1_000;

pub(crate) fn run(seconds: f64) -> Value {
    let Ok(runtime) = Builder::new_multi_thread().worker_threads(2).enable_time().build() else { return Value::Null };
    let (mut all, mut subscriptions) = (Vec::new(), 0);
    rounds(seconds, || {
        let store = Arc::new(CountingStore::new(Arc::new(MemoryStore::default())));
        let watches = Arc::clone(&store.watches);
        let took = runtime.block_on(round(store));
        subscriptions = subscriptions.max(watches.load(SeqCst));
        all.push(took * 1e3);
    });
    json!({
        "bench": "join",
        "unit": "ms",
        "ours": {
            "all woken": median(&mut all.clone()),
            "all woken, worst of ten": quantile(&mut all, 0.9),
            "store subscriptions": subscriptions,
        },
        "peers": {},
        "ratios": {},
    })
}

/// Seconds from just before the completion to the last answer.
async fn round(store: Arc<dyn Store>) -> f64 {
    let Ok(engine) = Engine::builder(store).build() else { return f64::NAN };
    let scope = engine.surface("bench").tenant("acme");
    let Ok(Begun::Execute(ticket)) = scope.clone().key("one").begin().await else { return f64::NAN };
    let answered = Arc::new(AtomicUsize::new(0));
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let (scope, answered) = (scope.clone(), Arc::clone(&answered));
            tokio::spawn(async move {
                let begun = scope.key("one").wait(Wait::AtMost(Millis::from_secs(30))).begin().await;
                if matches!(begun, Ok(Begun::Replay(_))) {
                    answered.fetch_add(1, SeqCst);
                }
                Instant::now()
            })
        })
        .collect();
    while engine.waiting() < WAITERS {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let start = Instant::now();
    let done = ticket.complete(&engine, Outcome::success("done")).await;
    assert!(done.is_ok_and(|stepped| stepped.is_done()), "the owner completes");
    let mut last = start;
    for waiter in waiters {
        if let Ok(at) = waiter.await {
            last = last.max(at);
        }
    }
    assert_eq!(answered.load(SeqCst), WAITERS, "everybody has the answer");
    (last - start).as_secs_f64()
}
