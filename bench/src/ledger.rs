//! Durable begin+complete pairs with an outcome of 1 KiB: the whole engine on the ledger against the raw segment log
//! without rules, fjall and SQLite, alternating in one run.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_engine::Engine;
use hapax_ledger::{Ledger, Options, RawLog};
use serde_json::{Value, json};

use crate::{
    pairs::{Maker, measure},
    peers::{Fjall, Grouped, Sqlite},
    sample::median,
    scratch::scratch,
    stored::{body, stored_sizes},
};

const TASKS: [usize; 5] = [1, 16, 64, 256, 1024];
const NAMES: [&str; 4] = ["ours", "raw", "fjall", "sqlite"];
/// How often all of them take their turn.
const ROUNDS: usize = 5;
/// Segments that were written before, so that all of the log lies on blocks that exist: the steady state of recycling.
const SPARES: usize = 8;
/// A moment for the disk after a peer was prepared: the log writes half a gigabyte of zeros, the others next to nothing.
const SETTLED: Duration = Duration::from_millis(500);

pub(crate) fn run(seconds: f64) -> Value {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() else {
        return Value::Null;
    };
    let place = scratch("ledger");
    let sizes = runtime.block_on(stored_sizes());
    let turn = Duration::from_secs_f64((seconds / ROUNDS as f64).max(0.2));
    let mut rates: BTreeMap<(usize, &str), Vec<f64>> = BTreeMap::new();
    let mut slow: BTreeMap<(usize, &str), Vec<f64>> = BTreeMap::new();
    for tasks in TASKS.into_iter().filter(|tasks| wanted("HAPAX_BENCH_TASKS", &tasks.to_string())) {
        for round in 0..ROUNDS {
            for name in NAMES.into_iter().filter(|name| wanted("HAPAX_BENCH_ONLY", name)) {
                let path = place.join(name);
                let _fresh = std::fs::remove_dir_all(&path);
                match maker(name, &path, &sizes) {
                    Ok(maker) => {
                        std::thread::sleep(SETTLED);
                        let (rate, p99) = measure(&runtime, &maker, tasks, turn, &mut 0);
                        rates.entry((tasks, name)).or_default().push(rate);
                        slow.entry((tasks, name)).or_default().push(p99);
                        eprintln!("{tasks:5} tasks, round {round}: {name:7} {rate:9.0} pairs/s, p99 {p99:7.2} ms");
                    }
                    Err(problem) => eprintln!("{name}: {problem}"),
                }
                let _gone = std::fs::remove_dir_all(&path);
            }
        }
    }
    let _gone = std::fs::remove_dir_all(&place);
    report(rates, slow)
}

/// For profiling one case: everything is wanted unless the variable names something else.
fn wanted(variable: &str, what: &str) -> bool {
    std::env::var(variable).map_or(true, |only| only == what)
}

fn report(
    mut rates: BTreeMap<(usize, &'static str), Vec<f64>>,
    mut slow: BTreeMap<(usize, &'static str), Vec<f64>>,
) -> Value {
    let mut by_name: BTreeMap<&str, serde_json::Map<String, Value>> = BTreeMap::new();
    let mut ratios = serde_json::Map::new();
    let mut medians = BTreeMap::new();
    for ((tasks, name), samples) in &mut rates {
        let rate = median(samples);
        medians.insert((*tasks, *name), rate);
        by_name.entry(name).or_default().insert(tasks.to_string(), json!(rate.round()));
    }
    for ((tasks, name), samples) in &mut slow {
        let p99 = median(samples);
        medians.insert((*tasks + 1_000_000, *name), p99);
        by_name.entry(name).or_default().insert(format!("p99 ms@{tasks}"), json!(p99));
    }
    for tasks in TASKS {
        let Some(ours) = medians.get(&(tasks, "ours")) else { continue };
        for peer in &NAMES[1..] {
            if let Some(theirs) = medians.get(&(tasks, *peer)) {
                ratios.insert(format!("{peer}@{tasks}"), json!(ours / theirs));
            }
        }
        let p99 = |name| medians.get(&(tasks + 1_000_000, name)).copied().unwrap_or(f64::NAN);
        ratios.insert(format!("raw p99@{tasks}"), json!(p99("raw") / p99("ours")));
    }
    let ours = by_name.remove("ours").unwrap_or_default();
    json!({ "bench": "ledger", "unit": "pairs/s", "ours": ours, "peers": by_name, "ratios": ratios })
}

fn maker(name: &str, path: &Path, sizes: &[Bytes; 2]) -> Result<Maker, String> {
    let options = || Options::new(path).spares(SPARES);
    let [begin, complete] = sizes.clone();
    match name {
        "ours" => {
            let ledger = Ledger::open_with(options()).map_err(|error| error.to_string())?;
            let engine = Engine::builder(Arc::new(ledger)).build().map_err(|error| error.to_string())?;
            let scope = engine.surface("bench").tenant("acme");
            Ok(Maker::Ours { engine, scope, body: body() })
        }
        "raw" => {
            let log = RawLog::open(&options()).map_err(|error| error.to_string())?;
            Ok(Maker::Raw { log: Arc::new(log), begin, complete })
        }
        "fjall" => Ok(Maker::Grouped { peer: Arc::new(Grouped::over(Fjall::open(path)?)), begin, complete }),
        _ => Ok(Maker::Grouped { peer: Arc::new(Grouped::over(Sqlite::open(path)?)), begin, complete }),
    }
}
