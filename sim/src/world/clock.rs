use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use hapax_core::{Stamp, WallMillis};
use hapax_engine::WallClock;
use hapax_store::Clock;
use tokio::time::Instant;

/// The store's time: simulated time, plus an offset that jumps.
#[derive(Debug)]
pub(super) struct WorldClock {
    start: Instant,
    offset: AtomicI64,
}

/// Far from zero, so that it can also go back.
const START: i64 = 1_000_000_000;

impl WorldClock {
    #[must_use]
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), offset: AtomicI64::new(START) }
    }

    /// Simulated time, which never jumps.
    #[must_use]
    pub(super) fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    #[must_use]
    pub(super) fn stamp(&self) -> Stamp {
        let elapsed = i64::try_from(self.elapsed()).unwrap_or(i64::MAX);
        Stamp(u64::try_from(self.offset.load(Relaxed).saturating_add(elapsed)).unwrap_or(0))
    }

    /// It never goes back before the start of time, nor close to it.
    pub(super) fn jump(&self, by: i64) {
        let least = START / 2 - i64::try_from(self.stamp().0).unwrap_or(i64::MAX);
        self.offset.fetch_add(by.max(least), Relaxed);
    }
}

impl Default for WorldClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for WorldClock {
    fn now(&self) -> Stamp {
        self.stamp()
    }
}

impl WallClock for WorldClock {
    fn now(&self) -> WallMillis {
        WallMillis(self.stamp().0)
    }
}
