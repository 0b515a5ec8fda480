//! Duplicates answered by the gateway, against nginx proxying each to the upstream, and against a bare server.

use std::{path::Path, time::Duration};

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
const ROUNDS: usize = 5;
/// Operations that were executed beforehand and are asked for again.
const DONE: u64 = 10_000;
/// Sent one after the other for a latency.
const ALONE: u64 = 2_000;

pub(crate) fn run(seconds: f64) -> Value {
    let place = scratch("replay");
    let figures = measure(seconds, &place);
    let _gone = std::fs::remove_dir_all(&place);
    match figures {
        Ok(mut figures) => {
            let added = figures.median("ours", "p50 ms alone") - figures.median("hyper", "p50 ms alone");
            figures.report("replay", "replay", &[("added p50 ms", added)])
        }
        Err(problem) => json!({ "bench": "replay", "problem": problem }),
    }
}

fn measure(seconds: f64, place: &Path) -> Result<Figures, String> {
    std::fs::create_dir_all(place).map_err(|error| error.to_string())?;
    let upstream = Running::ourselves("web-server")?;
    let bare = Running::ourselves("web-server")?;
    let ours = Running::gateway(upstream.address, &place.join("ours"))?;
    let nginx = nginx::proxy(upstream.address, place)?;
    let requests = Requests::new(0, Keys::Among(DONE));
    let executed = crowd(ours.address, CLIENTS, &requests, Until::Requests(DONE))?;
    if executed.replays > 0 {
        return Err(format!("{} first executions were called replays", executed.replays));
    }
    let turn = Until::Time(Duration::from_secs_f64((seconds / ROUNDS as f64).max(0.5)));
    let mut figures = Figures::default();
    for _ in 0..ROUNDS {
        for (name, address) in [("ours", ours.address), ("nginx", nginx.address), ("hyper", bare.address)] {
            let mut seen = crowd(address, CLIENTS, &requests, turn)?;
            if name == "ours" && seen.replays != seen.latencies.len() {
                return Err(format!("{} of {} answers were replays", seen.replays, seen.latencies.len()));
            }
            figures.note(name, "replay", seen.rate());
            figures.note(name, "p99 ms", quantile(&mut seen.latencies, 0.99));
            let mut alone = crowd(address, 1, &requests, Until::Requests(ALONE))?;
            figures.note(name, "p50 ms alone", quantile(&mut alone.latencies, 0.5));
        }
    }
    Ok(figures)
}
