//! What the customers sent and heard.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One answer, as a customer understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Charged,
    Replayed,
    /// The same key was used for another request.
    Mismatch,
    InFlight,
    /// Nobody knows whether it was charged, and a person has to look.
    InDoubt,
    TryAgain,
    /// No answer in time, or the connection broke.
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: AtomicU32,
    pub(crate) replays: AtomicU32,
    pub(crate) mismatches: AtomicU32,
    pub(crate) in_flight: AtomicU32,
    /// Customers whose last word was a doubt.
    pub(crate) in_doubt: AtomicU32,
    /// Customers who gave up without an answer.
    pub(crate) gave_up: AtomicU32,
}

impl Tally {
    pub(crate) fn sent(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn heard(&self, heard: Heard) {
        let count = match heard {
            Heard::Replayed => &self.replays,
            Heard::Mismatch => &self.mismatches,
            Heard::InFlight => &self.in_flight,
            Heard::Charged | Heard::InDoubt | Heard::TryAgain | Heard::Nothing => return,
        };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn ended(&self, heard: Heard) {
        let count = match heard {
            Heard::InDoubt => &self.in_doubt,
            Heard::InFlight | Heard::TryAgain | Heard::Nothing => &self.gave_up,
            Heard::Charged | Heard::Replayed | Heard::Mismatch => return,
        };
        count.fetch_add(1, Relaxed);
    }
}
