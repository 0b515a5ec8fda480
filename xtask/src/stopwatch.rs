//! Wall time for people to read. The only place of these commands that looks at a clock.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "build steps take real time; nothing here is simulated")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64())
}
