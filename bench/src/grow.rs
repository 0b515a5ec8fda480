//! Whether a ledger stays as fast when it holds more: pairs a second and the slowest of a hundred at 0.1, 1 and 10
//! million unexpired records, with what each record takes in memory and on disk.
//!
//! The small and the large ledger are measured in turns, so that both meet the same machine, and each is the first of
//! a round as often as the others: what one left for the disk to do is not always met by the same neighbour.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::{Policy, Preset, policy::Capacity, policy::OnFull};
use hapax_engine::Engine;
use hapax_ledger::{Ledger, Options};
use serde_json::{Value, json};

use crate::{
    alloc,
    fill::fill,
    pairs::{Maker, measure},
    sample::median,
    scratch::scratch,
};

const SIZES: [(&str, u64); 3] = [("0.1M", 100_000), ("1M", 1_000_000), ("10M", 10_000_000)];
const TASKS: usize = 64;
/// Many and short, a multiple of the sizes: one round is as fast as the disk just was, and that changes by half. All of them
/// together add some hundred thousand records to each ledger, also to the smallest.
const ROUNDS: usize = 21;
/// Small outcomes: ten million of them still fit on the disk.
const BODY: usize = 64;

pub(crate) fn run(seconds: f64) -> Value {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() else {
        return Value::Null;
    };
    let mut grown = Vec::new();
    let mut ours = serde_json::Map::new();
    for (name, records) in SIZES {
        let path = scratch(&format!("grow-{name}"));
        let before = alloc::resident();
        let Ok(ledger) = Ledger::open_with(Options::new(&path)) else { return Value::Null };
        let ledger = Arc::new(ledger);
        fill(&ledger, 0..records, BODY);
        let status = ledger.status();
        let resident = alloc::resident().saturating_sub(before) as f64;
        eprintln!("{name}: {status:?}");
        ours.insert(format!("index bytes a record@{name}"), json!(status.index_bytes as f64 / records as f64));
        ours.insert(format!("resident bytes a record@{name}"), json!(resident / records as f64));
        ours.insert(
            format!("disk, times what is needed@{name}"),
            json!(status.log_bytes as f64 / status.needed_bytes as f64),
        );
        // Without a limit of its own, so that only the ledger is measured.
        let unlimited: Policy = Policy {
            capacity: Capacity { per_tenant: 100_000_000, ..Capacity::of(100_000_000, OnFull::RejectNew) },
            ..Preset::Standard.policy()
        };
        let Ok(engine) = Engine::builder(ledger).policy("bench", unlimited).build() else { return Value::Null };
        let scope = engine.surface("bench").tenant("acme");
        grown.push((name, path, Maker::Ours { engine, scope, body: Bytes::from(vec![5; 1024]) }));
    }
    let turn = Duration::from_secs_f64((seconds / ROUNDS as f64).max(0.15));
    let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut slow: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut next = 0;
    for round in 0..ROUNDS {
        let turns = grown.iter().cycle().skip(round % grown.len()).take(grown.len());
        for (name, _, maker) in turns {
            let (rate, p99) = measure(&runtime, maker, TASKS, turn, &mut next);
            eprintln!("round {round}: {name:5} {rate:9.0} pairs/s, p99 {p99:6.2} ms");
            rates.entry(name).or_default().push(rate);
            slow.entry(name).or_default().push(p99);
        }
    }
    let mut ratios = serde_json::Map::new();
    let rate = |rates: &mut BTreeMap<&str, Vec<f64>>, name| rates.get_mut(name).map_or(f64::NAN, |all| median(all));
    let (small, small_p99) = (rate(&mut rates, SIZES[0].0), rate(&mut slow, SIZES[0].0));
    for (name, _) in SIZES {
        let (pairs, p99) = (rate(&mut rates, name), rate(&mut slow, name));
        ours.insert(format!("pairs/s@{name}"), json!(pairs.round()));
        ours.insert(format!("p99 ms@{name}"), json!(p99));
        ratios.insert(format!("0.1M@{name}"), json!(pairs / small));
        ratios.insert(format!("0.1M p99@{name}"), json!(small_p99 / p99));
    }
    for (_, path, maker) in grown {
        drop(maker);
        let _gone = std::fs::remove_dir_all(path);
    }
    json!({ "bench": "grow", "unit": "pairs/s", "ours": ours, "peers": {}, "ratios": ratios })
}
