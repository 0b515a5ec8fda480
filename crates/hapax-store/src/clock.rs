//! Where a store inside this process takes its time from.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use hapax_core::{Millis, Stamp};

pub trait Clock: Send + Sync + fmt::Debug + 'static {
    fn now(&self) -> Stamp;
}

/// Wall time when it was made, monotonic time from then on: steps of the wall clock are not seen.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    anchor: Stamp,
    since: Instant,
}

impl SystemClock {
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place where a store inside this process meets real time")]
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { anchor: Stamp(Millis::from_std(wall).0), since: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Stamp {
        let elapsed = self.since.elapsed();
        Stamp(self.anchor.0 + elapsed.as_secs() * 1_000 + u64::from(elapsed.subsec_millis()))
    }
}

/// A clock that stands still until it is told otherwise, and jumps in both directions.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    #[must_use]
    pub const fn new(start: Stamp) -> Self {
        Self(AtomicU64::new(start.0))
    }

    pub fn set(&self, now: Stamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    pub fn advance(&self, by: Millis) {
        self.jump(|now| now.saturating_add(by.0));
    }

    pub fn step_back(&self, by: Millis) {
        self.jump(|now| now.saturating_sub(by.0));
    }

    fn jump(&self, to: impl Fn(u64) -> u64) {
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(to(now)));
    }
}

impl Default for ManualClock {
    /// Starts well away from zero, so that it can also go back.
    fn default() -> Self {
        Self::new(Stamp(1_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Stamp {
        Stamp(self.0.load(Ordering::SeqCst))
    }
}
