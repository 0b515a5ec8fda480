//! How many requests the writer waits for before it writes.
//!
//! A sync costs the same for one as for a hundred. Where processors stand idle that is nobody's loss, and nobody waits. Where they are scarce, each sync, and
//! each change from one thread to another that comes with it, takes time from those who would bring the next request: then it is better for all to
//! write less often, and more at once.
//!
//! Those who were answered come back, but nobody can tell how many there are. So it is looked at, now and then, how many come by
//! themselves while others are written, and then how many come if they are given a moment. If these are not many more, it is the disk that is waited
//! for, and nothing is gained by waiting longer. If they are, half of them are waited for from then on: one half works while the other waits.

/// With fewer there is nothing to gain.
const FEW: usize = 4;
/// So many batches are looked at for how many come by themselves, after so many others: whoever was waited for comes together for a while.
const LOOKED_AT: usize = 16;
const SETTLING: usize = 64;
/// Many more than come by themselves are so many times as many.
const MANY_MORE: usize = 3;
/// For so many batches what was found holds.
const HOLDS: u32 = 500;
/// Too few came so often in a row: it does not hold any longer.
const MOST_MISSED: u32 = 3;

#[derive(Debug)]
pub(crate) enum Pace {
    /// Nobody is waited for.
    Looking {
        batches: usize,
        came: usize,
        few: usize,
    },
    /// Everybody who comes soon is.
    Counting {
        usual: usize,
    },
    Keeping {
        wanted: usize,
        left: u32,
        missed: u32,
    },
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self::Looking { batches: 0, came: 0, few: 0 }
    }

    const fn keeping(wanted: usize) -> Self {
        Self::Keeping { wanted, left: HOLDS, missed: 0 }
    }

    pub(crate) const fn wanted(&self) -> usize {
        match self {
            Self::Looking { .. } => 1,
            Self::Counting { .. } => usize::MAX,
            Self::Keeping { wanted, .. } => *wanted,
        }
    }

    /// So many came.
    pub(crate) fn came(&mut self, many: usize, scarce: bool) {
        *self = match *self {
            _ if !scarce => Self::new(),
            Self::Looking { batches, .. } if batches < SETTLING => {
                Self::Looking { batches: batches + 1, came: 0, few: 0 }
            }
            Self::Looking { batches, came, few } => {
                let (batches, came, few) = (batches + 1, came + many, few + usize::from(many < FEW));
                if batches < SETTLING + LOOKED_AT {
                    Self::Looking { batches, came, few }
                } else if few > LOOKED_AT / 2 {
                    Self::new()
                } else {
                    Self::Counting { usual: came / LOOKED_AT }
                }
            }
            Self::Counting { usual } => Self::keeping(if many / MANY_MORE > usual { many / 2 } else { 1 }),
            Self::Keeping { wanted, left, missed } => {
                let missed = if many < wanted { missed + 1 } else { 0 };
                match left.checked_sub(1) {
                    Some(left) if missed < MOST_MISSED => Self::Keeping { wanted, left, missed },
                    _ => Self::new(),
                }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The batches of so many callers, who come back as soon as they are answered; so many of them while others are written.
    fn batches(pace: &mut Pace, callers: usize, usual: usize, many: usize) -> Vec<usize> {
        let come = |_| {
            let came = pace.wanted().clamp(usual, callers);
            pace.came(came, true);
            came
        };
        (0..many).map(come).collect()
    }

    /// One caller would wait for company that never comes.
    #[test]
    fn a_few_wait_for_nobody() {
        let mut pace = Pace::new();
        for turn in 0..1_000 {
            pace.came(turn % 4, true);
            assert_eq!(pace.wanted(), 1);
        }
    }

    /// The disk stood still for a moment, and whoever came then came at once.
    #[test]
    fn a_crowd_now_and_then_makes_nobody_wait() {
        let mut pace = Pace::new();
        for turn in 0..1_000 {
            pace.came(if turn % 40 == 0 { 64 } else { 1 }, true);
            assert_eq!(pace.wanted(), 1);
        }
    }

    #[test]
    fn nobody_waits_where_there_are_processors() {
        let mut pace = Pace::new();
        batches(&mut pace, 64, 6, 200);
        assert_eq!(pace.wanted(), 32);
        for _ in 0..100 {
            pace.came(32, false);
            assert_eq!(pace.wanted(), 1);
        }
    }

    /// Most come while others are written: to wait for more would leave the disk idle.
    #[test]
    fn nobody_waits_where_the_disk_is_what_is_waited_for() {
        let mut pace = Pace::new();
        let batches = batches(&mut pace, 64, 24, 1_000);
        assert!(batches.iter().filter(|many| **many > 24).count() <= 2, "{batches:?}");
    }

    /// All of them together leave nobody at work: that is for counting only.
    #[test]
    fn half_of_those_who_come_are_written_at_once() {
        let mut pace = Pace::new();
        let batches = batches(&mut pace, 64, 6, 1_000);
        assert!(batches.iter().filter(|many| **many == 64).count() <= 2, "{batches:?}");
        assert!(batches.iter().filter(|many| **many == 32).count() > 800, "{batches:?}");
    }

    #[test]
    fn who_comes_later_is_counted() {
        let mut pace = Pace::new();
        batches(&mut pace, 64, 6, 200);
        assert_eq!(pace.wanted(), 32);
        batches(&mut pace, 256, 6, HOLDS as usize + 100);
        assert_eq!(pace.wanted(), 128);
    }

    #[test]
    fn who_has_left_is_not_waited_for() {
        let mut pace = Pace::new();
        batches(&mut pace, 256, 6, 200);
        assert_eq!(pace.wanted(), 128);
        // Once or twice they may only be late.
        pace.came(16, true);
        pace.came(16, true);
        assert_eq!(pace.wanted(), 128);
        pace.came(16, true);
        assert_eq!(pace.wanted(), 1);
    }
}
