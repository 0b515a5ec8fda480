//! How many requests the writer waits for before it writes.
//!
//! A sync costs the same for one as for a hundred. Where processors stand idle that is nobody's loss, and nobody waits. Where they are scarce, each sync, and
//! each change from one thread to another that comes with it, takes time from those who would bring the next request: then it is better for all to
//! write less often, and more at once.
//!
//! Those who were answered come back, but nobody can tell how many there are. So they are counted now and then: it waits until no more
//! come. All of them are too many, as nobody is at work while they are written. Half of them is right: one half works while the other waits.

/// With fewer there is nothing to gain.
const FEW: usize = 4;
/// They are counted once in so many batches, and when too few came so often in a row.
const BETWEEN_COUNTS: u32 = 500;
const MOST_MISSED: u32 = 3;
const ALL_WHO_COME: usize = usize::MAX;

#[derive(Debug)]
pub(crate) struct Pace {
    wanted: usize,
    /// Batches until they are counted.
    left: u32,
    /// How often in a row fewer came than were wanted.
    missed: u32,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self::of(1)
    }

    const fn of(wanted: usize) -> Self {
        Self { wanted, left: BETWEEN_COUNTS, missed: 0 }
    }

    pub(crate) const fn wanted(&self) -> usize {
        self.wanted
    }

    /// So many came.
    pub(crate) fn came(&mut self, many: usize, scarce: bool) {
        self.missed = if many < self.wanted { self.missed + 1 } else { 0 };
        self.left = self.left.saturating_sub(1);
        *self = match self.wanted {
            _ if !scarce || self.missed == MOST_MISSED => Self::new(),
            1 if many >= FEW => Self::of(ALL_WHO_COME),
            ALL_WHO_COME => Self::of((many / 2).max(1)),
            // More than were counted.
            wanted if wanted > 1 && many / 2 > wanted => Self::of(many / 2),
            wanted if wanted > 1 && self.left == 0 => Self::of(ALL_WHO_COME),
            _ => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The batches of callers who come back as soon as they are answered. Without being waited for, an eighth of them does.
    fn batches(pace: &mut Pace, callers: usize, many: usize) -> Vec<usize> {
        let come = |_| {
            let came = pace.wanted().clamp(callers.div_ceil(8), callers);
            pace.came(came, true);
            came
        };
        (0..many).map(come).collect()
    }

    /// One caller would wait for company that never comes.
    #[test]
    fn a_few_wait_for_nobody() {
        let mut pace = Pace::new();
        for many in [1, 2, 3, 1, 3, 2] {
            pace.came(many, true);
            assert_eq!(pace.wanted(), 1);
        }
    }

    #[test]
    fn nobody_waits_where_there_are_processors() {
        let mut pace = Pace::new();
        batches(&mut pace, 64, 100);
        assert_eq!(pace.wanted(), 32);
        pace.came(32, false);
        assert_eq!(pace.wanted(), 1);
        pace.came(64, false);
        assert_eq!(pace.wanted(), 1);
    }

    /// All of them together leave nobody at work: that is for counting only.
    #[test]
    fn half_of_those_who_come_are_written_at_once() {
        let mut pace = Pace::new();
        let batches = batches(&mut pace, 64, 1_000);
        assert!(batches.iter().filter(|many| **many == 64).count() < 4);
        assert!(batches.iter().filter(|many| **many == 32).count() > 990);
    }

    #[test]
    fn who_comes_later_is_counted() {
        let mut pace = Pace::new();
        batches(&mut pace, 64, 10);
        batches(&mut pace, 256, BETWEEN_COUNTS as usize + 2);
        assert_eq!(pace.wanted(), 128);
    }

    /// They were counted in a moment in which most were elsewhere.
    #[test]
    fn who_was_missed_is_counted_in_when_it_comes() {
        let mut pace = Pace::new();
        batches(&mut pace, 8, 2);
        pace.came(4, true);
        pace.came(8, true);
        assert_eq!(pace.wanted(), 4);
        pace.came(60, true);
        assert_eq!(pace.wanted(), 30);
    }

    #[test]
    fn who_has_left_is_not_waited_for() {
        let mut pace = Pace::new();
        batches(&mut pace, 256, 10);
        assert_eq!(pace.wanted(), 128);
        // Once or twice they may only be late.
        pace.came(16, true);
        pace.came(16, true);
        assert_eq!(pace.wanted(), 128);
        pace.came(16, true);
        assert_eq!(pace.wanted(), 1);
        pace.came(16, true);
        pace.came(16, true);
        assert_eq!(pace.wanted(), 8);
    }
}
