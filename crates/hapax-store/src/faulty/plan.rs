use std::collections::VecDeque;

use hapax_core::Millis;

use super::fault::{Call, Fault, Landing};
use crate::Seeded;

/// How often each fault strikes, in calls of a thousand that it fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Odds {
    pub before: u64,
    pub after: u64,
    pub late: u64,
    pub lost_read: u64,
    pub slow: u64,
    pub stale: u64,
    /// How likely a late write that waits for [`Landing::SomeCall`] is applied before the next call.
    pub landing: u64,
}

impl Odds {
    /// Everything that the contract allows, often enough that a short history meets all of it.
    pub const ROUGH: Self = Self { before: 80, after: 80, late: 80, lost_read: 80, slow: 0, stale: 20, landing: 150 };
}

/// Which call meets which fault: first what was scripted, then the dice.
#[derive(Clone, Debug)]
pub struct Plan {
    script: VecDeque<Fault>,
    odds: Odds,
    landing: Landing,
    slow: Millis,
    dice: Seeded,
}

impl Plan {
    /// No faults but those that are asked for by name.
    #[must_use]
    pub fn quiet() -> Self {
        Self::seeded(0, Odds::default())
    }

    #[must_use]
    pub fn seeded(seed: u64, odds: Odds) -> Self {
        Self { script: VecDeque::new(), odds, landing: Landing::SomeCall, slow: Millis(1), dice: Seeded::new(seed) }
    }

    /// When late writes drawn by the dice are applied.
    #[must_use]
    pub const fn landing(mut self, landing: Landing) -> Self {
        self.landing = landing;
        self
    }

    /// How long a slow call drawn by the dice takes.
    #[must_use]
    pub const fn slow(mut self, slow: Millis) -> Self {
        self.slow = slow;
        self
    }

    /// The first call that this fits meets it, after the faults scripted before.
    #[must_use]
    pub fn then(mut self, fault: Fault) -> Self {
        self.script(fault);
        self
    }

    pub(super) fn script(&mut self, fault: Fault) {
        self.script.push_back(fault);
    }

    pub(super) fn calm(&mut self) {
        self.script.clear();
        self.odds = Odds::default();
    }

    pub(super) fn draw(&mut self, call: Call) -> Option<Fault> {
        if let Some(place) = self.script.iter().position(|fault| fault.fits(call)) {
            return self.script.remove(place);
        }
        let odds = self.odds;
        let drawn = [
            (odds.stale, Fault::Stale(1 + (self.dice.below(3) as u32))),
            (odds.before, Fault::Before),
            (odds.after, Fault::After),
            (odds.late, Fault::Late(self.landing)),
            (odds.lost_read, Fault::LostRead),
            (odds.slow, Fault::Slow(self.slow)),
        ];
        drawn.into_iter().find(|(odds, fault)| fault.fits(call) && self.dice.chance(*odds)).map(|(_, fault)| fault)
    }

    pub(super) fn lands_now(&mut self) -> bool {
        self.dice.chance(self.odds.landing)
    }

    /// One of so many.
    pub(super) fn one_of(&mut self, many: usize) -> usize {
        usize::try_from(self.dice.below(many as u64)).unwrap_or(0)
    }
}
