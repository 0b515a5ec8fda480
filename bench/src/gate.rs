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
    work::{ENTRIES, PRINTS, bodies, full_gate, id, print, replay},
};

const LOOK_UPS: u64 = 1_000_000;
const FEW: u64 = 1_000;
/// Requests whose ids are made at a time.
const AT_HAND: usize = 50;
const SHARDS: usize = 16;

type Held = Arc<(Fingerprint, Replay)>;

pub(crate) fn run(seconds: f64) -> Value {
    let counted = alloc::counted("gate");
    let bodies = bodies(ENTRIES);
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
        let from_gate = |id: &Id, print: &Fingerprint| found(&gate.look_up(id, Some(print), Stamp(5)));
        ours.push(rate(time(|| walk(LOOK_UPS, ENTRIES, from_gate))));
        cached.push(rate(time(|| {
            walk(LOOK_UPS, ENTRIES, |id, print| found(&peer.get(id).and_then(|held| answer(&held, print))));
        })));
        let from_map = |id: &Id, print: &Fingerprint| shard(id).lock().get(id).and_then(|held| answer(held, print));
        mapped.push(rate(time(|| walk(LOOK_UPS, ENTRIES, |id, print| found(&from_map(id, print))))));
        both.push(rate(time(|| {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| walk(LOOK_UPS, ENTRIES, from_gate));
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

/// The answer is there, whole, for whoever asked.
fn found(answer: &Option<Replay>) -> bool {
    black_box(answer).is_some()
}

/// So many look-ups in a gate that is in the processor's caches, to count their instructions.
pub(crate) fn count_look_ups(times: u64) {
    let gate = full_gate(&bodies(FEW));
    walk(times, FEW, |id, print| found(&gate.look_up(id, Some(print), Stamp(5))));
}

/// Asks for so many of all entries in an order that no cache foresees; all are hits.
///
/// Who asks has its id and its print at hand already: making them is no part of a look-up.
fn walk(times: u64, entries: u64, look_up: impl Fn(&Id, &Fingerprint) -> bool) {
    let prints: Vec<Fingerprint> = (0..PRINTS).map(print).collect();
    let mut number = 1_u64;
    let mut hits = 0;
    for _ in 0..times / AT_HAND as u64 {
        let asked: [_; AT_HAND] = std::array::from_fn(|_| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let wanted = (number >> 20) % entries;
            (id(wanted), &prints[(wanted % PRINTS) as usize])
        });
        hits += asked.iter().map(|(id, print)| u64::from(look_up(id, print))).sum::<u64>();
    }
    assert_eq!(black_box(hits), times / AT_HAND as u64 * AT_HAND as u64, "every look-up is a hit");
}
