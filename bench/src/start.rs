//! Opening a ledger of a million and of five million unexpired records after an unclean end.
//!
//! A child process fills it and is killed in the middle of its work; this one measures how long the next start takes,
//! with the files in the page cache and, where that is allowed, without.

use std::{path::Path, process::Command, sync::Arc, time::Instant};

use hapax_ledger::{Ledger, Options};
use hapax_store::Store;
use serde_json::{Value, json};

use crate::{
    fill::{fill, id},
    scratch::scratch,
};

const SIZES: [(&str, u64); 2] = [("1M", 1_000_000), ("5M", 5_000_000)];
/// Outcomes of a kibibyte, as in the benchmark of pairs.
const BODY: usize = 1024;

pub(crate) fn run(_seconds: f64) -> Value {
    let mut ours = serde_json::Map::new();
    for (name, records) in SIZES {
        let path = scratch("start");
        let filled = std::env::current_exe()
            .and_then(|program| Command::new(program).args(["fill-and-die", &records.to_string()]).arg(&path).status());
        eprintln!("{name}: filled, the child ended with {filled:?}");
        if let Some(warm) = open(&path, records) {
            ours.insert(format!("{name} warm"), json!(warm));
        }
        if drop_caches()
            && let Some(cold) = open(&path, records)
        {
            ours.insert(format!("{name} cold"), json!(cold));
        }
        let _gone = std::fs::remove_dir_all(&path);
    }
    json!({ "bench": "start", "unit": "s", "ours": ours, "peers": {}, "ratios": {} })
}

/// Seconds until the ledger answers. A clean end would make the next start easier, so it gets none: the copy in memory
/// is forgotten together with the process that opened it.
fn open(path: &Path, records: u64) -> Option<f64> {
    let start = Instant::now();
    let ledger = Ledger::open_with(Options::new(path)).ok()?;
    let took = start.elapsed().as_secs_f64();
    let runtime = tokio::runtime::Builder::new_current_thread().build().ok()?;
    for number in [0, records / 2, records - 1] {
        let found = runtime.block_on(ledger.get(&id(number))).ok()?;
        assert!(found.record.is_some(), "record {number} was acknowledged and is there");
    }
    Some(took)
}

/// What the child does: fills the ledger, then dies without closing it.
pub(crate) fn fill_and_die(records: u64, path: &Path) {
    let Ok(ledger) = Ledger::open_with(Options::new(path)) else { return };
    fill(&Arc::new(ledger), 0..records, BODY);
    std::process::abort();
}

fn drop_caches() -> bool {
    let _flushed = Command::new("sync").status();
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}
