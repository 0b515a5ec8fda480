//! Says now and then how far a long piece of work is, beside its result.

use tokio::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Progress {
    doing: &'static str,
    last: Instant,
}

impl Progress {
    pub(super) fn new(doing: &'static str) -> Self {
        Self { doing, last: Instant::now() }
    }

    /// Short work says nothing.
    pub(super) fn at(&mut self, done: u64, of: Option<u64>) {
        if self.last.elapsed() < PAUSE {
            return;
        }
        self.last = Instant::now();
        match of {
            Some(of) => errln!("hapax: {} {done} of {of} operations", self.doing),
            None => errln!("hapax: {} {done} operations", self.doing),
        }
    }
}
