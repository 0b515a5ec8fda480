//! First executions through the gateway, durable, against nginx as a plain proxy to the same upstream; and what a first
//! execution adds to a single client's latency, beside what two syncs of this disk cost.

use std::{path::Path, time::Duration};

use hapax_core::Id;
use hapax_ledger::{Options, RawLog};
use serde_json::{Value, json};

use crate::{sample::quantile, scratch::scratch};

use super::{
    load::{Until, crowd},
    nginx,
    process::Running,
    report::Figures,
    request::{Keys, Requests},
};

const CLIENTS: usize = 64;
const ROUNDS: u64 = 5;
/// Sent one after the other for a latency.
const ALONE: u64 = 500;

pub(crate) fn run(seconds: f64) -> Value {
    let place = scratch("gateway");
    let figures = measure(seconds, &place);
    let _gone = std::fs::remove_dir_all(&place);
    match figures {
        Ok(mut figures) => {
            let added = figures.median("ours", "p50 ms alone") - figures.median("direct", "p50 ms alone");
            let syncs = 2.0 * figures.median("disk", "p50 ms of a sync");
            figures.report("gateway", "first", &[("added p50 ms", added), ("two syncs ms", syncs)])
        }
        Err(problem) => json!({ "bench": "gateway", "problem": problem }),
    }
}

fn measure(seconds: f64, place: &Path) -> Result<Figures, String> {
    std::fs::create_dir_all(place).map_err(|error| error.to_string())?;
    let upstream = Running::ourselves("web-server")?;
    let ours = Running::gateway(upstream.address, &place.join("ours"))?;
    let nginx = nginx::proxy(upstream.address, place)?;
    let turn = Until::Time(Duration::from_secs_f64((seconds / ROUNDS as f64).max(0.5)));
    let mut figures = Figures::default();
    let sides = [("ours", ours.address), ("nginx", nginx.address), ("direct", upstream.address)];
    for round in 0..ROUNDS {
        for (name, address) in sides {
            let mut seen = crowd(address, CLIENTS, &Requests::new(round * 2, Keys::Fresh), turn)?;
            figures.note(name, "first", seen.rate());
            figures.note(name, "p99 ms", quantile(&mut seen.latencies, 0.99));
        }
        for (name, address) in sides {
            let mut seen = crowd(address, 1, &Requests::new(round * 2 + 1, Keys::Fresh), Until::Requests(ALONE))?;
            figures.note(name, "p50 ms alone", quantile(&mut seen.latencies, 0.5));
        }
        figures.note("disk", "p50 ms of a sync", sync(&place.join("raw"))?);
    }
    Ok(figures)
}

/// What one durable write of 1 KiB costs by the bare log, with segments as the ledger prepares them.
fn sync(place: &Path) -> Result<f64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let log = RawLog::open(&Options::new(place)).map_err(|error| error.to_string())?;
    let mut latencies = Vec::new();
    for _ in 0..ALONE {
        let start = std::time::Instant::now();
        let done = runtime.block_on(log.append(Id([7; 32]), vec![7; 1_024].into()));
        done.map_err(|error| error.to_string())?;
        latencies.push(start.elapsed().as_secs_f64() * 1e3);
    }
    drop(log);
    let _gone = std::fs::remove_dir_all(place);
    Ok(quantile(&mut latencies, 0.5))
}
