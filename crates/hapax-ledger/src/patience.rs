//! How long to leave a full disk alone before another segment is tried on it.
//!
//! To try is to write zeros until there is no room left and to take them away again, which is the last thing that a full
//! disk and its other users need ten times a second.

use hapax_core::{Millis, Stamp};

const FIRST: Millis = Millis::from_secs(1);
const LONGEST: Millis = Millis::from_secs(30);

#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// When to try again, how long was waited for that, and how many segments had been given back.
    held: Option<(Stamp, Millis, u64)>,
}

impl Patience {
    /// A segment that was given back since is a reason to try at once.
    pub(crate) fn is_over(&self, now: Stamp, retired: u64) -> bool {
        self.held.is_none_or(|(until, _, then)| now >= until || retired != then)
    }

    pub(crate) fn in_vain(&mut self, now: Stamp, retired: u64) {
        let wait = match self.held {
            Some((_, before, then)) if then == retired => Millis((2 * before.0).min(LONGEST.0)),
            Some(_) | None => FIRST,
        };
        self.held = Some((now.plus(wait), wait, retired));
    }

    pub(crate) fn is_rewarded(&mut self) {
        self.held = None;
    }
}
