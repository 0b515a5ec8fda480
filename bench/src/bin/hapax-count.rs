//! Counts allocations: of a pair and a replay, and the bytes of an entry in the gate. One line of JSON.

#![allow(clippy::panic, reason = "a benchmark whose work fails has nothing to say")]

#[path = "../work.rs"]
mod work;

use std::{alloc::System, sync::Arc};

use hapax_engine::Engine;
use hapax_store::MemoryStore;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations made so far, and the bytes that are in use.
fn so_far() -> (usize, usize) {
    let stats = ALLOCATOR.stats();
    (stats.allocations + stats.reallocations, stats.bytes_allocated.saturating_sub(stats.bytes_deallocated))
}

fn main() {
    let counted = match std::env::args().nth(1).as_deref() {
        Some("engine") => engine(),
        Some("gate") => gate(),
        _ => None,
    };
    println!("{}", counted.unwrap_or_default());
}

fn engine() -> Option<serde_json::Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
    let body = bytes::Bytes::from(vec![7; 1024]);
    let engine = Engine::builder(Arc::new(MemoryStore::default())).build().ok()?;
    let scope = engine.surface("bench").tenant("acme");
    runtime.block_on(async {
        let start = so_far().0;
        work::make_pairs(&engine, &scope, &body).await;
        let made = so_far().0;
        work::replay_all(&scope).await;
        let each = |count: usize| count as f64 / work::PAIRS as f64;
        Some(json!({ "pair": each(made - start), "replay": each(so_far().0 - made) }))
    })
}

fn gate() -> Option<serde_json::Value> {
    let bodies = work::bodies(work::ENTRIES);
    let before = so_far().1;
    let gate = work::full_gate(&bodies);
    // What is kept may take more room once it was given.
    for number in 0..work::ENTRIES {
        gate.look_up(&work::id(number), Some(&work::print(number)), hapax_core::Stamp(5))?;
    }
    // The gate keeps each body in memory of its own; that is not what an entry costs beyond it.
    let bytes = (so_far().1 - before) as f64 / work::ENTRIES as f64 - work::BODY as f64;
    drop(gate);
    Some(json!({ "entry": bytes }))
}
