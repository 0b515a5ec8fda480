//! Who of several processes does a piece of housekeeping that would do no harm twice, and no good.
//!
//! A claim is no lease on an effect: two that hold it for a moment only do the same work. So it needs no token and no
//! doubt, only an owner and an end.

use crate::{Anchor, Millis, Stamp};

/// Whoever asks, told apart from every other: drawn at random when a process starts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claimant(pub [u8; 16]);

/// A claim on one range of work, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub by: Claimant,
    /// Its time counts from the last time that it was made or renewed.
    pub since: Anchor,
    pub length: Millis,
}

impl Claim {
    pub fn settle(&mut self, stamp: Stamp) {
        self.since = self.since.settled(stamp);
    }

    /// When it is over unless it is renewed; the record's own stamp where it is not settled yet.
    #[must_use]
    pub const fn end(&self, stamp: Stamp) -> Stamp {
        self.since.resolve(stamp).plus(self.length)
    }
}

/// The answer to a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Claimed {
    /// The work is the asker's.
    Ours,
    /// Another is at it; ask again then.
    Others { until: Stamp },
}

/// The one place where it is decided whose a range is. What is to be written comes first.
pub fn apply_claim(held: Option<&Claim>, by: Claimant, length: Millis, now: Stamp) -> (Option<Claim>, Claimed) {
    let ours = Claim { by, since: Anchor::Write, length };
    let Some(held) = held else { return (Some(ours), Claimed::Ours) };
    let end = held.end(now);
    if held.by != by {
        // Whoever does not renew is taken to be gone; if it was only slow, the work is done twice and nothing else.
        return if end <= now { (Some(ours), Claimed::Ours) } else { (None, Claimed::Others { until: end }) };
    }
    // A write for every page would cost more than the work: renewed when half of it is over.
    if end.since(now) > Millis(held.length.0 / 2) && held.length == length {
        (None, Claimed::Ours)
    } else {
        (Some(ours), Claimed::Ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Claimant = Claimant([1; 16]);
    const OTHER: Claimant = Claimant([2; 16]);
    const LENGTH: Millis = Millis(1_000);

    fn held(by: Claimant, at: u64) -> Claim {
        Claim { by, since: Anchor::At(Stamp(at)), length: LENGTH }
    }

    #[test]
    fn what_nobody_holds_is_taken() {
        let (write, said) = apply_claim(None, ME, LENGTH, Stamp(5));
        assert_eq!((write.map(|claim| claim.by), said), (Some(ME), Claimed::Ours));
    }

    #[test]
    fn what_another_holds_is_left_alone_until_its_time_is_over() {
        let other = held(OTHER, 100);
        assert_eq!(
            apply_claim(Some(&other), ME, LENGTH, Stamp(1_099)),
            (None, Claimed::Others { until: Stamp(1_100) })
        );
        let (write, said) = apply_claim(Some(&other), ME, LENGTH, Stamp(1_100));
        assert_eq!((write.map(|claim| claim.by), said), (Some(ME), Claimed::Ours));
    }

    #[test]
    fn ones_own_is_renewed_when_half_of_it_is_over_and_costs_nothing_before() {
        let mine = held(ME, 100);
        assert_eq!(apply_claim(Some(&mine), ME, LENGTH, Stamp(599)), (None, Claimed::Ours));
        let (write, said) = apply_claim(Some(&mine), ME, LENGTH, Stamp(600));
        assert_eq!((write.map(|claim| claim.since), said), (Some(Anchor::Write), Claimed::Ours));
        // Also if nobody took it after its end.
        assert!(apply_claim(Some(&mine), ME, LENGTH, Stamp(9_000)).0.is_some());
    }
}
