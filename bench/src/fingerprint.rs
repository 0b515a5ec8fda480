//! The canonical JSON digest against what a user would write with serde_jcs: parse to a tree, canonicalise, hash.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures the real clock")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use hapax_core::identity::canonical;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The documents of `quality.md`, by name and size in bytes.
const CASES: [(&str, usize); 2] = [("1.6KB", 1_600), ("98KB", 98_000)];

/// Alternates ours and the peer for about `seconds` and gives medians in microseconds; ratios are peer / ours.
pub(crate) fn run(seconds: f64) -> Value {
    let mut ours = serde_json::Map::new();
    let mut peers = serde_json::Map::new();
    let mut ratios = serde_json::Map::new();
    for (name, size) in CASES {
        let document = document(size);
        assert_eq!(canonical::digest(&document), peer(&document), "both must see the same document");
        let budget = Duration::from_secs_f64(seconds.max(0.1) / CASES.len() as f64);
        let (our_time, peer_time) = alternate(&document, budget);
        ours.insert(name.into(), json!(our_time));
        peers.insert(name.into(), json!(peer_time));
        ratios.insert(format!("serde_jcs@{name}"), json!(peer_time / our_time));
    }
    json!({
        "bench": "fingerprint",
        "unit": "µs",
        "ours": ours,
        "peers": { "serde_jcs": peers },
        "ratios": ratios,
    })
}

fn peer(document: &[u8]) -> Option<[u8; 32]> {
    let tree: Value = serde_json::from_slice(document).ok()?;
    let text = serde_jcs::to_vec(&tree).ok()?;
    Some(Sha256::digest(text).into())
}

/// Medians, in microseconds, of ours and the peer, taken in turns so that both meet the same machine.
fn alternate(document: &[u8], budget: Duration) -> (f64, f64) {
    let mut ours = Vec::new();
    let mut peers = Vec::new();
    let end = Instant::now() + budget;
    while ours.len() < 15 || Instant::now() < end {
        ours.push(time(|| canonical::digest(black_box(document))));
        peers.push(time(|| peer(black_box(document))));
    }
    (median(&mut ours), median(&mut peers))
}

/// One sample: as many runs as make the clock's own cost vanish.
fn time<T>(mut work: impl FnMut() -> T) -> f64 {
    const RUNS: u32 = 8;
    let start = Instant::now();
    for _ in 0..RUNS {
        black_box(work());
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(RUNS)
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// A document like an API request of about `size` bytes: nested, unsorted, pretty in places, the same on every run.
fn document(size: usize) -> Vec<u8> {
    let mut text = String::from(
        "{\"type\": \"order\", \"id\": \"ord_01J9Z6K8Q2\", \"currency\": \"EUR\", \"tenant\": \"acme\",\n \"items\": [",
    );
    let tail = "],\n \"customer\": {\"name\": \"Zoë Müller\", \"email\": \"zoe@example.org\", \"address\": {\"street\": \
                \"Hauptstraße 5\", \"city\": \"Wien\", \"zip\": \"1010\"}},\n \"created_at\": \
                \"2026-03-01T12:30:45Z\", \"dry_run\": false, \"amount\": 129.95}";
    let mut item = 0_u32;
    while text.len() + tail.len() < size {
        if item > 0 {
            text.push_str(", ");
        }
        let cents = item * 37 % 100;
        text.push_str(&format!(
            "{{\"sku\": \"SKU-{:05}\", \"quantity\": {}, \"price\": {}.{cents:02}, \"tags\": [\"new\", \"sale-{}\"], \
             \"title\": \"Item \\\"{item}\\\" – a somewhat longer description of what is sold\\nsecond line\", \
             \"discount\": null, \"weight\": {}.5e-3, \"dimensions\": {{\"w\": {}, \"h\": {}, \"d\": 2.25}}, \
             \"gift\": {}}}",
            item * 7919 % 99_991,
            item % 9 + 1,
            item * 13 % 500 + 1,
            item % 7,
            item % 90 + 1,
            item % 40 + 3,
            item % 60 + 2,
            item.is_multiple_of(3),
        ));
        item += 1;
    }
    text.push_str(tail);
    text.into_bytes()
}
