//! What a swap costs on the memory store: `cargo run --release -p hapax-store --example swap_cost`.
#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::{
    future::Future,
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use bytes::Bytes;
use hapax_core::{Id, Millis, Tag, Version};
use hapax_store::{Counted, Due, Envelope, Kind, MemoryStore, Store, StoreError, Swap};

fn now<T>(future: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.ok(),
        Poll::Pending => None,
    }
}

fn id(number: u64) -> Id {
    let mut bytes = [0; 32];
    for (part, salt) in bytes.chunks_exact_mut(8).zip(1u64..) {
        let mixed = (number.wrapping_add(salt)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        part.copy_from_slice(&(mixed ^ (mixed >> 29)).to_le_bytes());
    }
    Id(bytes)
}

fn pending(payload: &Bytes) -> Envelope {
    Envelope {
        kind: Kind::OPERATION,
        surface: Tag([1; 16]),
        tenant: Tag([2; 16]),
        counted: Counted::Record,
        lease_end: Some(Due::After(Millis::from_secs(60))),
        expiry: None,
        gone: None,
        in_doubt: false,
        entries: Vec::new(),
        payload: payload.clone(),
    }
}

fn done(payload: &Bytes) -> Envelope {
    let day = Some(Due::After(Millis::from_hours(24)));
    Envelope { lease_end: None, expiry: day, gone: day, ..pending(payload) }
}

fn version(answer: Option<Swap>) -> Version {
    match answer {
        Some(Swap::Swapped { version, .. }) => version,
        Some(Swap::Conflict(_)) | None => Version::NEVER,
    }
}

/// Few ids, over and over: what the code costs while everything is in the caches.
fn few(payload: &Bytes) {
    let store = MemoryStore::default().with_late_write_window(Millis::ZERO);
    let ids: Vec<Id> = (0..1_000).map(id).collect();
    let rounds = 300;
    let start = Instant::now();
    for _ in 0..rounds {
        for id in &ids {
            let expected = now(store.get(id)).map_or(Version::NEVER, |snapshot| snapshot.version);
            let begun = version(now(store.swap(id, expected, Some(pending(payload)))));
            let done = version(now(store.swap(id, begun, Some(done(payload)))));
            let _ = black_box(now(store.swap(id, done, None)));
        }
    }
    let cost = start.elapsed().as_nanos() as f64 / (3 * rounds * ids.len()) as f64;
    println!("   1,000 ids: {cost:.0} ns a swap (begin, complete, remove, and a third of a get)");
}

fn main() {
    let payload = Bytes::from(vec![7; 200]);
    few(&payload);
    for held in [0u64, 1_000_000] {
        let store = MemoryStore::default();
        for number in 0..held {
            let begun = version(now(store.swap(&id(number), Version::NEVER, Some(pending(&payload)))));
            let _ = black_box(now(store.swap(&id(number), begun, Some(done(&payload)))));
        }
        // Begin, complete, and the sweeper's removal of one of long ago, so that the set keeps its size.
        let rounds = 100_000u64;
        let mut best = f64::MAX;
        for round in 0..5 {
            let ids: Vec<Id> = (0..rounds).map(|number| id(held + round * rounds + number)).collect();
            let start = Instant::now();
            for id in &ids {
                let begun = version(now(store.swap(id, Version::NEVER, Some(pending(&payload)))));
                let _ = black_box(now(store.swap(id, begun, Some(done(&payload)))));
            }
            best = best.min(start.elapsed().as_nanos() as f64 / (2 * rounds) as f64);
            for id in &ids {
                let held = now(store.get(id)).map_or(Version::NEVER, |snapshot| snapshot.version);
                let _ = black_box(now(store.swap(id, held, None)));
            }
        }
        let ids: Vec<Id> = (0..rounds).map(|number| id(number * held.max(1) / rounds)).collect();
        let start = Instant::now();
        for id in &ids {
            let _ = black_box(now(store.get(id)));
        }
        let get = start.elapsed().as_nanos() as f64 / rounds as f64;
        let hot = id(u64::MAX);
        let mut last = version(now(store.swap(&hot, Version::NEVER, Some(pending(&payload)))));
        let start = Instant::now();
        for _ in 0..rounds {
            last = version(now(store.swap(&hot, last, Some(pending(&payload)))));
        }
        let one = start.elapsed().as_nanos() as f64 / rounds as f64;
        println!("{held:>8} records: {best:.0} ns a swap (begin + complete), {one:.0} ns on one id, {get:.0} ns a get");
    }
}
