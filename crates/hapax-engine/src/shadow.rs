//! Shadow mode decides everything and stops nothing. Its records live on a surface of their own and never decide an
//! enforced request; what would have been stopped is counted and listed.

use std::collections::VecDeque;

use hapax_core::{Id, WallMillis};
use parking_lot::Mutex;

/// How many would-be stops are listed.
const KEPT: usize = 1_024;

/// Something that enforcing would have stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WouldStop {
    pub id: Id,
    pub wall: WallMillis,
    pub because: &'static str,
}

#[derive(Debug, Default)]
pub struct ShadowLog(Mutex<VecDeque<WouldStop>>);

impl ShadowLog {
    pub(crate) fn note(&self, stop: WouldStop) {
        let mut list = self.0.lock();
        if list.len() == KEPT {
            list.pop_front();
        }
        list.push_back(stop);
    }

    #[must_use]
    pub fn list(&self) -> Vec<WouldStop> {
        self.0.lock().iter().cloned().collect()
    }
}
