//! Look-ups in the gate: a million entries, each asked for by id and fingerprint, in random order.
//!
//! The peer is quick_cache holding the same answers: what one would put there instead.

use std::{hint::black_box, sync::Arc};

use bytes::Bytes;
use hapax_core::{Fingerprint, Id, Outcome, Recorded, Replay, Stamp, Tag, WallMillis};
use hapax_engine::gate::{Gate, GateSize};
use serde_json::{Value, json};

use crate::{
    alloc,
    sample::{median, rounds, time},
};

const ENTRIES: u64 = 1_000_000;
const LOOK_UPS: u64 = 1_000_000;
const BODY: usize = 64;

pub(crate) fn run(seconds: f64) -> Value {
    let bodies: Vec<Bytes> = (0..ENTRIES).map(|number| Bytes::from(number.to_le_bytes().repeat(BODY / 8))).collect();
    // A body that is shared keeps a count of its holders; that is part of the body, not of the entry.
    let shared: Vec<Bytes> = bodies.clone();
    drop(shared);
    let before = alloc::so_far().1;
    let gate = Gate::new(GateSize { entries: 2 * ENTRIES as usize, bytes: usize::MAX / 2, tenant_share: 1 });
    for (number, body) in bodies.iter().enumerate() {
        gate.insert(&id(number as u64), Tag([1; 16]), Some(&print(number as u64)), &replay(body), None);
    }
    let entry_bytes = (alloc::so_far().1 - before) as f64 / ENTRIES as f64;
    assert_eq!(gate.len() as u64, ENTRIES, "all of them fit");

    let peer = quick_cache::sync::Cache::new(2 * ENTRIES as usize);
    for (number, body) in bodies.iter().enumerate() {
        peer.insert(id(number as u64), Arc::new((print(number as u64), replay(body))));
    }

    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(2);
    let (mut ours, mut peers, mut both) = (Vec::new(), Vec::new(), Vec::new());
    rounds(seconds, || {
        ours.push(LOOK_UPS as f64 / 1e6 / time(|| walk(|id, print| gate.look_up(id, Some(print), Stamp(5)).is_some())));
        let held = |id: &Id, print: &Fingerprint| {
            peer.get(id).filter(|held| held.0.matches(print)).map(|held| held.1.clone()).is_some()
        };
        peers.push(LOOK_UPS as f64 / 1e6 / time(|| walk(held)));
        let took = time(|| {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| walk(|id, print| gate.look_up(id, Some(print), Stamp(5)).is_some()));
                }
            });
        });
        both.push(LOOK_UPS as f64 / 1e6 / took);
    });
    let (ours, peers, both) = (median(&mut ours), median(&mut peers), median(&mut both));
    json!({
        "bench": "gate",
        "unit": "million look-ups/s per thread",
        "ours": { "1 thread": ours, format!("{threads} threads"): both, "bytes an entry": entry_bytes },
        "peers": { "quick_cache": { "1 thread": peers } },
        "ratios": { "quick_cache@1M": ours / peers },
    })
}

/// Asks for every entry once in an order that no cache foresees; all are hits.
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

/// Spread like a digest, made as cheaply as possible: the figure is about the look-up.
fn id(number: u64) -> Id {
    let mut bytes = [0; 32];
    for (at, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(at as u32 * 17 + 3);
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    Id(bytes)
}

fn print(number: u64) -> Fingerprint {
    Fingerprint::of(hapax_core::identity::Scheme::RAW_V1, id(number ^ 0x5555).0)
}

fn replay(body: &Bytes) -> Replay {
    Replay {
        answer: Recorded::Whole(Outcome::success(body.clone())),
        rejected: false,
        decided_wall: WallMillis(1),
        expires: Some(Stamp(1_000)),
        attempt: 1,
    }
}
