//! Instructions per pair, per replay and per look-up in the gate, counted by callgrind: the same for the same program whatever else the machine
//! does. valgrind shows the program a processor without SHA instructions, so digests weigh more here than in truth; they
//! are reported beside the rest.

use std::{process::Command, sync::Arc};

use hapax_core::Outcome;
use hapax_engine::{Begun, Engine};
use hapax_ledger::Ledger;
use hapax_store::{MemoryStore, Store};
use serde_json::{Value, json};

const FEW: u64 = 500;
const MANY: u64 = 2_500;

const LOOK_UPS: &str = "look-ups";
/// With its writer, which is asked for each swap and writes and syncs it alone.
const ON_THE_LEDGER: &str = "pairs-on-the-ledger";

pub(crate) fn run(_seconds: f64) -> Value {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("valgrind counts here, and is missing: apt-get install valgrind");
    }
    let per = |what: &str| {
        // Two runs of different length: what they share, the start and the end, falls out.
        let (few, many) = (count(what, FEW)?, count(what, MANY)?);
        Some((many - few) / (MANY - FEW) as f64)
    };
    let (pair, both, look_up) = (per("pairs"), per("pairs-and-replays"), per(LOOK_UPS));
    let on_the_ledger = per(ON_THE_LEDGER);
    json!({
        "bench": "cost",
        "unit": "instructions",
        "ours": { "pair": pair, "replay": both.zip(pair).map(|(both, pair)| both - pair), "pair on the ledger, one task": on_the_ledger, "look-up in the gate": look_up },
        "peers": {},
        "ratios": {},
    })
}

fn count(what: &str, times: u64) -> Option<f64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["cost-run", what, &times.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// What is counted: so many pairs, each perhaps with a replay, or look-ups in the gate.
pub(crate) fn cost_run(what: &str, times: u64) {
    if what == LOOK_UPS {
        return crate::gate::count_look_ups(times);
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else { return };
    runtime.block_on(async {
        let Some(store) = store(what) else { return };
        let Ok(engine) = Engine::builder(store).build() else { return };
        let scope = engine.surface("bench").tenant("acme");
        for key in 0..times {
            let Ok(Begun::Execute(ticket)) = scope.clone().key(key).begin().await else { return };
            let _done = ticket.complete(&engine, Outcome::success(vec![7; 1024])).await;
            if what == "pairs-and-replays" {
                let _replayed = scope.clone().key(key).begin().await;
            }
        }
    });
    let _gone = std::fs::remove_dir_all(crate::scratch::scratch("cost"));
}

fn store(what: &str) -> Option<Arc<dyn Store>> {
    if what != ON_THE_LEDGER {
        return Some(Arc::new(MemoryStore::default()));
    }
    Some(Arc::new(Ledger::open(crate::scratch::scratch("cost")).ok()?))
}
