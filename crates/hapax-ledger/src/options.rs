use std::{path::PathBuf, sync::Arc, time::Duration};

use hapax_core::Millis;

use crate::{
    clock::{Clock, SystemClock},
    disk::{Disk, RealDisk},
};

/// How a ledger is opened. The defaults suit a server; tests hand in disks and clocks of their own.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) path: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) first_segment_bytes: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) most_queued: usize,
    pub(crate) removal_memory: Millis,
    pub(crate) lock_wait: Duration,
    pub(crate) spares: usize,
}

impl Options {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            disk: Arc::new(RealDisk),
            clock: Arc::new(SystemClock::new()),
            first_segment_bytes: 4 << 20,
            segment_bytes: 64 << 20,
            most_queued: 64 * 1024,
            removal_memory: Millis::from_mins(10),
            lock_wait: Duration::from_secs(2),
            spares: 0,
        }
    }

    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The size of a segment, and of the first one, which is small so that a start is instant; each later one is twice
    /// as large as the one before until the full size is reached. Rounded up to whole blocks of 4 KiB.
    #[must_use]
    pub fn segment_bytes(mut self, first: u64, full: u64) -> Self {
        let block = |bytes: u64| bytes.clamp(4096, 1 << 30).next_multiple_of(4096);
        self.segment_bytes = block(full);
        self.first_segment_bytes = block(first).min(self.segment_bytes);
        self
    }

    /// How many writes may wait for the writer before callers have to wait to be let in.
    #[must_use]
    pub fn most_queued(mut self, requests: usize) -> Self {
        self.most_queued = requests.max(1);
        self
    }

    /// How long the version of a removed record is remembered: at least twice the longest time-out of a write.
    #[must_use]
    pub fn removal_memory(mut self, span: Millis) -> Self {
        self.removal_memory = span;
        self
    }

    /// How long to wait for another process to let go of the directory.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// How many segments to have written in advance before the first request: what a store that has been recycling for
    /// a while looks like. For benchmarks.
    #[doc(hidden)]
    #[must_use]
    pub fn spares(mut self, segments: usize) -> Self {
        self.spares = segments;
        self
    }
}
