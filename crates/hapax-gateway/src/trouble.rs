//! What the store says when it fails, for the operator: a notice now and then, however many requests it fails.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use hapax_engine::EngineError;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::gateway::Notice;

pub(crate) type Tell = dyn Fn(Notice) + Send + Sync;

/// A store that is down fails every request, and says the same each time.
const BETWEEN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Trouble {
    /// Known as soon as there is a gateway.
    tell: OnceLock<Arc<Tell>>,
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    last: Option<Instant>,
    /// The latest that nobody was told of, and how many came before it.
    untold: Option<(EngineError, u64)>,
}

impl Trouble {
    pub(crate) fn tell_to(&self, tell: &Arc<Tell>) {
        let _as_before = self.tell.set(Arc::clone(tell));
    }

    pub(crate) fn met(&self, error: &EngineError) {
        self.said.lock().add(error);
        self.say();
    }

    /// Tells what there is to tell, if it is time. To be called now and then, for what was last.
    pub(crate) fn say(&self) {
        let Some((error, left_out)) = self.said.lock().due(Instant::now()) else { return };
        if let Some(tell) = self.tell.get() {
            tell(Notice::StoreFailed { error: error.to_string(), left_out });
        }
    }
}

impl Said {
    fn add(&mut self, error: &EngineError) {
        let before = self.untold.as_ref().map_or(0, |(_, before)| before + 1);
        self.untold = Some((error.clone(), before));
    }

    fn due(&mut self, now: Instant) -> Option<(EngineError, u64)> {
        if self.last.is_some_and(|last| now < last + BETWEEN) {
            return None;
        }
        let due = self.untold.take()?;
        self.last = Some(now);
        Some(due)
    }
}

impl std::fmt::Debug for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trouble").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour of failing requests is an hour of lines, not a full disk; and none of them is forgotten in the count.
    #[test]
    fn a_store_that_fails_everything_is_told_of_once_a_second() {
        let (mut said, begun) = (Said::default(), Instant::now());
        let error = EngineError::Fingerprint("a reason".to_owned());
        let (mut told, mut counted) = (0, 0);
        for millisecond in 0..10_000 {
            said.add(&error);
            if let Some((_, left_out)) = said.due(begun + Duration::from_millis(millisecond)) {
                told += 1;
                counted += left_out + 1;
            }
        }
        assert_eq!((told, counted), (10, 9_001));
        // What came last is told without another to push it.
        let (_, left_out) = said.due(begun + Duration::from_secs(10)).unwrap();
        assert_eq!(left_out, 998);
        assert!(said.due(begun + Duration::from_secs(20)).is_none(), "nothing new");
    }
}
