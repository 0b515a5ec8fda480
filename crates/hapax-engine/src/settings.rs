use std::time::Duration;

use crate::gate::GateSize;

/// How the engine behaves in this process. The rules are not among it: those are in each surface's policy.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What this process calls itself in the records of its attempts.
    pub owner: String,
    pub gate: GateSize,
    /// How many may wait for one operation; beyond that they are told that it is in flight.
    pub waiters_per_key: usize,
    pub waiters: usize,
    /// One tenant may take one part in so many of those places.
    pub waiters_share: usize,
    /// How many events are kept for pages and *explain*.
    pub events: usize,
    /// How often a store call whose fate is unknown, or that failed, is tried again, and how long between two tries
    /// at first; each further wait is four times as long.
    pub store_retries: u32,
    pub store_backoff: Duration,
    /// How long one store call may take before its fate counts as unknown.
    pub store_timeout: Duration,
    /// The first and the longest wait between two probes of one operation; never less than a probe may take, since a
    /// claim holds at least so long.
    pub probe_first: Duration,
    pub probe_longest: Duration,
    /// How long one probe may take.
    pub probe_timeout: Duration,
    /// How many records one slice of the sweeper looks at.
    pub sweep_slice: usize,
    /// On a shared store one process sweeps for all; so long after it was last heard of another takes over. Shorter
    /// than the time between two passes, it goes to whoever comes first.
    pub sweep_claim: Duration,
    /// A body that no record names is dropped once it is this old.
    pub orphan_age: Duration,
    /// Refuse to start on a store that does not promise to keep what it acknowledged.
    pub demand_durable: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            owner: format!("process {}", std::process::id()),
            gate: GateSize::default(),
            waiters_per_key: 10_000,
            waiters: 100_000,
            waiters_share: 2,
            events: 4_096,
            store_retries: 4,
            store_backoff: Duration::from_millis(5),
            store_timeout: Duration::from_secs(5),
            probe_first: Duration::from_secs(10),
            probe_longest: Duration::from_secs(300),
            probe_timeout: Duration::from_secs(10),
            sweep_slice: 256,
            sweep_claim: Duration::from_secs(45),
            orphan_age: Duration::from_secs(3_600),
            demand_durable: false,
        }
    }
}
