//! The store's time: a persisted anchor plus monotonic time.
//!
//! The wall clock sets the anchor when the ledger is opened and nothing afterwards: it may be stepped by a year and back
//! without a single window noticing. Steps are counted, so that an operator can see them.
//!
//! The anchor of the next start is the last durable stamp at least. What was told to somebody must therefore become
//! durable even if nobody writes: else a record that was read as expired could come back after a restart under a wall
//! clock that was set back.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use hapax_core::{Millis, Stamp};

/// Where time comes from; handed in so that tests can jump it.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Milliseconds since 1970. May jump in either direction.
    fn wall_ms(&self) -> u64;
    /// Milliseconds since some moment of its own. Never goes back.
    fn monotonic_ms(&self) -> u64;
}

#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    since: Instant,
}

impl SystemClock {
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place where the ledger meets real time")]
    pub fn new() -> Self {
        Self { since: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place where the ledger meets real time")]
    fn wall_ms(&self) -> u64 {
        Millis::from_std(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()).0
    }

    fn monotonic_ms(&self) -> u64 {
        Millis::from_std(self.since.elapsed()).0
    }
}

/// How far the anchor may move ahead at an open. A wall clock that is wrong by more only lengthens windows.
pub(crate) const MOST_AHEAD: Millis = Millis::from_days(7);

/// While the ledger is open, time that was told is durable after so long at the latest.
pub(crate) const KEPT_WITHIN: Millis = Millis::from_secs(10);

/// Times that were told are remembered to the next multiple of this, so that readers seldom have to write.
const TOLD_BITS: u32 = 10;

/// A difference below this is drift, above it a step.
const STEP_MS: i64 = 1_000;

#[derive(Debug)]
pub(crate) struct StoreTime {
    clock: Arc<dyn Clock>,
    anchor: u64,
    monotonic_at_anchor: u64,
    wall_minus_monotonic: AtomicI64,
    steps: AtomicU64,
    /// Nothing at or after this many [`TOLD_BITS`] was told to anybody.
    untold: AtomicU64,
}

impl StoreTime {
    /// `last`: the last durable stamp, if there is one.
    pub(crate) fn open(clock: Arc<dyn Clock>, last: Option<Stamp>) -> Self {
        let wall = clock.wall_ms();
        let anchor = match last {
            None => wall,
            Some(last) => wall.clamp(last.0, last.plus(MOST_AHEAD).0),
        };
        let monotonic_at_anchor = clock.monotonic_ms();
        let apart = apart(wall, monotonic_at_anchor);
        Self {
            clock,
            anchor,
            monotonic_at_anchor,
            wall_minus_monotonic: apart.into(),
            steps: AtomicU64::new(0),
            untold: AtomicU64::new(0),
        }
    }

    /// For somebody outside, who may draw conclusions from it.
    pub(crate) fn tell(&self) -> Stamp {
        let now = self.now();
        let untold = (now.0 >> TOLD_BITS) + 1;
        if self.untold.load(Ordering::Relaxed) < untold {
            self.untold.fetch_max(untold, Ordering::Relaxed);
        }
        now
    }

    /// Whether somebody may know a time after `durable`.
    pub(crate) fn told_after(&self, durable: Stamp) -> bool {
        self.untold.load(Ordering::Relaxed) << TOLD_BITS > durable.0
    }

    /// For the ledger's own use.
    pub(crate) fn now(&self) -> Stamp {
        Stamp(self.anchor.saturating_add(self.clock.monotonic_ms().saturating_sub(self.monotonic_at_anchor)))
    }

    /// Looks whether the wall clock has been stepped since it was last looked at.
    pub(crate) fn watch_wall(&self) {
        let apart = apart(self.clock.wall_ms(), self.clock.monotonic_ms());
        let before = self.wall_minus_monotonic.swap(apart, Ordering::Relaxed);
        if apart.abs_diff(before) >= STEP_MS.unsigned_abs() {
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

const fn apart(wall: u64, monotonic: u64) -> i64 {
    wall.wrapping_sub(monotonic).cast_signed()
}
