//! Look-ups in the gate: a million entries, each asked for by id and fingerprint, in random order.
//!
//! The peers hold the same answers: quick_cache, which one would take instead, and a bare map in shards without any
//! bound, which says what this machine's memory gives at best.

use std::{collections::HashMap, hint::black_box, sync::Arc};

use hapax_core::{Fingerprint, Id, Replay, Stamp};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    alloc,
    sample::{median, rounds, time},
    work::{ENTRIES, bodies, full_gate, id, print, replay},
};

const LOOK_UPS: u64 = 1_000_000;
const SHARDS: usize = 16;

type Held = Arc<(Fingerprint, Replay)>;

pub(crate) fn run(seconds: f64) -> Value {
    let counted = alloc::counted("gate");
    let bodies = bodies();
    let gate = full_gate(&bodies);
    let held = |number: usize| Arc::new((print(number as u64), replay(&bodies[number])));
    let peer = quick_cache::sync::Cache::<Id, Held>::new(2 * ENTRIES as usize);
    let bare: Vec<Mutex<HashMap<Id, Held, foldhash::fast::RandomState>>> =
        (0..SHARDS).map(|_| Mutex::default()).collect();
    let shard = |id: &Id| &bare[usize::from(id.0[31]) % SHARDS];
    for number in 0..ENTRIES as usize {
        let id = id(number as u64);
        peer.insert(id, held(number));
        shard(&id).lock().insert(id, held(number));
    }
    let answer = |held: &Held, print: &Fingerprint| held.0.matches(print).then(|| held.1.clone());

    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(2);
    let (mut ours, mut both, mut cached, mut mapped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let rate = |took: f64| LOOK_UPS as f64 / 1e6 / took;
    rounds(seconds, || {
        let from_gate = |id: &Id, print: &Fingerprint| gate.look_up(id, Some(print), Stamp(5)).is_some();
        ours.push(rate(time(|| walk(from_gate))));
        cached.push(rate(time(|| walk(|id, print| peer.get(id).and_then(|held| answer(&held, print)).is_some()))));
        let from_map = |id: &Id, print: &Fingerprint| shard(id).lock().get(id).and_then(|held| answer(held, print));
        mapped.push(rate(time(|| walk(|id, print| from_map(id, print).is_some()))));
        both.push(rate(time(|| {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| walk(from_gate));
                }
            });
        })));
    });
    let ours = median(&mut ours);
    let (cached, mapped) = (median(&mut cached), median(&mut mapped));
    json!({
        "bench": "gate",
        "unit": "million look-ups/s per thread",
        "ours": { "1 thread": ours, format!("{threads} threads"): median(&mut both), "bytes an entry beyond its body": counted["entry"] },
        "peers": { "quick_cache": { "1 thread": cached }, "bare map": { "1 thread": mapped } },
        "ratios": { "quick_cache@1M": ours / cached, "bare map@1M": ours / mapped },
    })
}

/// Asks for a million entries in an order that no cache foresees; all are hits.
fn walk(look_up: impl Fn(&Id, &Fingerprint) -> bool) {
    let mut number = 1_u64;
    let mut hits = 0;
    for _ in 0..LOOK_UPS {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let wanted = (number >> 20) % ENTRIES;
        hits += u64::from(look_up(&id(wanted), &print(wanted)));
    }
    assert_eq!(black_box(hits), LOOK_UPS, "every look-up is a hit");
}
