//! A store that is down fails every request, and says the same each time.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

const BETWEEN: Duration = Duration::from_secs(1);

/// Gathers what would be told at every request, for whoever tells it once a second. See [`crate::Rules::on_trouble`].
#[derive(Debug)]
pub struct NowAndThen<T>(Mutex<Said<T>>);

#[derive(Debug)]
struct Said<T> {
    last: Option<Instant>,
    /// The latest that nobody was told of, and how many came before it.
    untold: Option<(T, u64)>,
}

impl<T> Default for NowAndThen<T> {
    fn default() -> Self {
        Self(Mutex::new(Said { last: None, untold: None }))
    }
}

impl<T> NowAndThen<T> {
    /// To be followed by [`NowAndThen::due`].
    pub fn add(&self, what: T) {
        let mut said = self.0.lock();
        let before = said.untold.as_ref().map_or(0, |(_, before)| before + 1);
        said.untold = Some((what, before));
    }

    /// The latest, and how many were left out before it, if there is anything to tell and it is time. To be asked now and
    /// then as well, for what came last.
    pub fn due(&self) -> Option<(T, u64)> {
        self.due_at(Instant::now())
    }

    fn due_at(&self, now: Instant) -> Option<(T, u64)> {
        let mut said = self.0.lock();
        if said.last.is_some_and(|last| now < last + BETWEEN) {
            return None;
        }
        let due = said.untold.take()?;
        said.last = Some(now);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour of failing requests is an hour of lines, not a full disk; and none of them is forgotten in the count.
    #[test]
    fn what_fails_everything_is_told_of_once_a_second() {
        let (said, begun) = (NowAndThen::default(), Instant::now());
        let (mut told, mut counted) = (0, 0);
        for millisecond in 0..10_000 {
            said.add("a reason");
            if let Some((_, left_out)) = said.due_at(begun + Duration::from_millis(millisecond)) {
                told += 1;
                counted += left_out + 1;
            }
        }
        assert_eq!((told, counted), (10, 9_001));
        // What came last is told without another to push it.
        let (_, left_out) = said.due_at(begun + Duration::from_secs(10)).unwrap();
        assert_eq!(left_out, 998);
        assert!(said.due_at(begun + Duration::from_secs(20)).is_none(), "nothing new");
    }
}
