//! The system's allocator, counted, for figures of allocations per operation.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

pub(crate) type Counted = &'static StatsAlloc<System>;
pub(crate) const COUNTED: Counted = &INSTRUMENTED_SYSTEM;

/// Allocations made so far, and the bytes that are in use.
pub(crate) fn so_far() -> (usize, usize) {
    let stats = COUNTED.stats();
    (stats.allocations + stats.reallocations, stats.bytes_allocated.saturating_sub(stats.bytes_deallocated))
}
