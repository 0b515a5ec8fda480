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

/// How many clients there are, and what their case is called. With few of them it counts how long a sync takes, with many how much work there is.
const CROWDS: [(usize, &str); 2] = [(64, "first"), (256, "first-256")];
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
            let (_, many) = CROWDS[1];
            let among_many = figures.median("ours", many) / figures.median("nginx", many);
            let beside = [("nginx@first-256", among_many), ("added p50 ms", added), ("two syncs ms", syncs)];
            figures.report("gateway", "first", &beside)
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
        for (number, (clients, case)) in (0..).zip(CROWDS) {
            for (name, address) in sides {
                let mut seen = crowd(address, clients, &Requests::new(round * 3 + number, Keys::Fresh), turn)?;
                figures.note(name, case, seen.rate());
                figures.note(name, &format!("p99 ms, {case}"), quantile(&mut seen.latencies, 0.99));
            }
        }
        for (name, address) in sides {
            let mut seen = crowd(address, 1, &Requests::new(round * 3 + 2, Keys::Fresh), Until::Requests(ALONE))?;
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
