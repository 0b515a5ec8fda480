//! Whom the writer waits for before it writes.
//!
//! A sync costs the same for one as for a hundred. Where processors stand idle that is nobody's loss, and nobody waits. Where they are scarce, each sync, and
//! each change from one thread to another that comes with it, takes time from those who would bring the next request: then it may be better for all to
//! write less often, and more at once. But whoever waits does nothing meanwhile, and how much a sync costs, and how long it takes, is another thing on every machine.
//!
//! So it is tried. Those who were answered come back, and nobody can tell how many there are: it is looked at how many come by themselves while others are
//! written, and then how many come if they are given a moment. If these are not many more, it is the disk that is waited for, and nothing is gained by
//! waiting longer. If they are, each [`Company`] has its turns, and the one with which the most was written in the same time is kept for a while.

use std::time::{Duration, Instant};

/// With fewer there is nothing to gain.
const FEW: usize = 4;
/// So many batches are looked at for how many come by themselves, after so many others: whoever was waited for comes together for a while.
const LOOKED_AT: usize = 16;
const SETTLING: usize = 64;
/// Many more than come by themselves are so many times as many.
const MANY_MORE: usize = 3;
/// A turn of a trial: so many batches count, after so many that still have to do with the turn before.
const COUNTED: u32 = 16;
const BEFORE: u32 = 4;
/// How often each has its turn. What is in the middle counts, so that no single interruption decides.
const ROUNDS: usize = 5;
/// For so many batches what was found holds.
const HOLDS: u32 = 10_000;
/// Fewer came than waited for, or more than there were, so often in a row: it is another crowd, and it does not hold any longer.
const MOST_MISSED: u32 = 3;
/// So often a trial's turn may be broken off.
const MOST_BROKEN_OFF: u32 = 5;

/// Who is waited for once there is something to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Company {
    Nobody,
    /// Whoever could run right now, on this processor, and has something to bring.
    WhoeverIsReady,
    /// So many, if they come soon.
    AsMany(usize),
}

#[derive(Debug)]
pub(crate) struct Pace {
    scarce: bool,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
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
    Trying(Box<Trial>),
    Keeping {
        company: Company,
        all: usize,
        left: u32,
        missed: u32,
    },
}

impl Phase {
    const fn new() -> Self {
        Self::Looking { batches: 0, came: 0, few: 0 }
    }

    const fn keeping(company: Company, all: usize) -> Self {
        Self::Keeping { company, all, left: HOLDS, missed: 0 }
    }

    const fn company(&self) -> Company {
        match self {
            Self::Looking { .. } => Company::Nobody,
            Self::Counting { .. } => Company::AsMany(usize::MAX),
            Self::Trying(trial) => trial.company(),
            Self::Keeping { company, .. } => *company,
        }
    }

    fn after(self, many: usize, now: Instant) -> Self {
        match self {
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
            Self::Counting { usual } if many / MANY_MORE > usual => Self::Trying(Box::new(Trial::of(many))),
            Self::Counting { .. } => Self::keeping(Company::Nobody, many),
            Self::Trying(mut trial) => match trial.came(many, now) {
                Some(best) => Self::keeping(best, trial.all),
                None => Self::Trying(trial),
            },
            Self::Keeping { company, all, left, missed } => {
                let fewer = matches!(company, Company::AsMany(wanted) if many < wanted);
                let missed = if fewer || many > all { missed + 1 } else { 0 };
                match left.checked_sub(1) {
                    Some(left) if missed < MOST_MISSED => Self::Keeping { company, all, left, missed },
                    _ => Self::new(),
                }
            }
        }
    }

    /// Processors are not scarce for a moment. Where that is so because of who is waited for, it would be tried for ever.
    fn break_off(&mut self) {
        let Self::Trying(trial) = self else { return };
        trial.begin_turn();
        trial.broken_off += 1;
        if trial.broken_off > MOST_BROKEN_OFF {
            *self = Self::keeping(Company::Nobody, trial.all);
        }
    }
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self { scarce: false, phase: Phase::new() }
    }

    pub(crate) const fn company(&self) -> Company {
        if self.scarce { self.phase.company() } else { Company::Nobody }
    }

    /// So many came. While processors are not scarce nobody is waited for, and nothing is learnt; what was found before is not forgotten for a
    /// moment's rest.
    pub(crate) fn came(&mut self, many: usize, scarce: bool, now: Instant) {
        let was = std::mem::replace(&mut self.scarce, scarce);
        if was && !scarce {
            self.phase.break_off();
        }
        if !was || !scarce {
            return;
        }
        self.phase = std::mem::replace(&mut self.phase, Phase::new()).after(many, now);
    }
}

/// What is tried in turns.
#[derive(Debug)]
struct Trial {
    all: usize,
    ways: [Way; 3],
    /// Whose turn it is.
    turn: usize,
    batches: u32,
    came: usize,
    since: Option<Instant>,
    broken_off: u32,
}

#[derive(Debug)]
struct Way {
    company: Company,
    /// How many came in a second, in each of its turns.
    rates: Vec<u64>,
}

impl Trial {
    fn of(all: usize) -> Self {
        // All of them would leave nobody at work: one half works while the other waits. Of equals the last is taken.
        let ways = [Company::AsMany(all / 2), Company::WhoeverIsReady, Company::Nobody];
        let ways = ways.map(|company| Way { company, rates: Vec::with_capacity(ROUNDS) });
        Self { all, ways, turn: 0, batches: 0, came: 0, since: None, broken_off: 0 }
    }

    const fn company(&self) -> Company {
        self.ways[self.turn].company
    }

    const fn begin_turn(&mut self) {
        (self.batches, self.came, self.since) = (0, 0, None);
    }

    /// The best, once each has had all its turns.
    fn came(&mut self, many: usize, now: Instant) -> Option<Company> {
        self.batches += 1;
        let Some(since) = self.since else {
            if self.batches == BEFORE {
                (self.batches, self.since) = (0, Some(now));
            }
            return None;
        };
        self.came += many;
        if self.batches < COUNTED {
            return None;
        }
        let took = now.saturating_duration_since(since).max(Duration::from_nanos(1));
        self.ways[self.turn].rates.push((self.came as u128 * 1_000_000_000 / took.as_nanos()) as u64);
        self.begin_turn();
        self.turn = (self.turn + 1) % self.ways.len();
        let all_done = self.ways.iter().all(|way| way.rates.len() == ROUNDS);
        if all_done { self.ways.iter().max_by_key(|way| way.usual()).map(|way| way.company) } else { None }
    }
}

impl Way {
    fn usual(&self) -> u64 {
        let mut rates = self.rates.clone();
        rates.sort_unstable();
        rates.get(rates.len() / 2).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine, and callers who come back as soon as they are answered.
    struct Machine {
        pace: Pace,
        now: Instant,
        callers: usize,
        /// So many come while others are written, and so many if those are given way.
        usual: usize,
        ready: usize,
        /// What a batch takes, in microseconds, beside what each of it does; and what it takes if it was waited for.
        sync: u64,
        waiting: u64,
    }

    impl Machine {
        #[allow(clippy::disallowed_methods, reason = "only to begin with some moment")]
        fn new(callers: usize, usual: usize) -> Self {
            let (pace, now) = (Pace::new(), Instant::now());
            Self { pace, now, callers, usual, ready: usual, sync: 1_000, waiting: 0 }
        }

        /// How many came.
        fn batch(&mut self) -> usize {
            let company = self.pace.company();
            let (came, waited) = match company {
                Company::Nobody => (self.usual, 0),
                Company::WhoeverIsReady => (self.ready, 0),
                Company::AsMany(wanted) => (wanted.clamp(self.usual, self.callers), self.waiting),
            };
            self.now += Duration::from_micros(self.sync + waited + 10 * came as u64);
            self.pace.came(came, true, self.now);
            came
        }

        fn batches(&mut self, many: u32) -> Vec<usize> {
            (0..many).map(|_| self.batch()).collect()
        }

        /// What it has settled on, from the beginning or after that was forgotten.
        fn settled(&mut self) -> Company {
            let keeps = |machine: &Self| matches!(machine.pace.phase, Phase::Keeping { .. });
            let batches = (0..20_000).find(|_| {
                self.batch();
                keeps(self)
            });
            assert!(batches.is_some(), "it never settles");
            self.pace.company()
        }
    }

    fn came(pace: &mut Pace, many: usize) {
        #[allow(clippy::disallowed_methods, reason = "the time makes no difference here")]
        pace.came(many, true, Instant::now());
    }

    /// One caller would wait for company that never comes.
    #[test]
    fn a_few_wait_for_nobody() {
        let mut pace = Pace::new();
        for turn in 0..1_000 {
            came(&mut pace, turn % 4);
            assert_eq!(pace.company(), Company::Nobody);
        }
    }

    /// The disk stood still for a moment, and whoever came then came at once.
    #[test]
    fn a_crowd_now_and_then_makes_nobody_wait() {
        let mut pace = Pace::new();
        for turn in 0..1_000 {
            came(&mut pace, if turn % 40 == 0 { 64 } else { 1 });
            assert_eq!(pace.company(), Company::Nobody);
        }
    }

    /// What was found is not forgotten, as a crowd rests now and then.
    #[test]
    fn nobody_waits_where_there_are_processors() {
        let mut machine = Machine::new(64, 6);
        assert_eq!(machine.settled(), Company::AsMany(32));
        for _ in 0..100 {
            machine.pace.came(32, false, machine.now);
            assert_eq!(machine.pace.company(), Company::Nobody);
        }
        machine.batch();
        assert_eq!(machine.pace.company(), Company::AsMany(32));
    }

    /// Most come while others are written: to wait for more would leave the disk idle.
    #[test]
    fn nobody_waits_where_the_disk_is_what_is_waited_for() {
        let batches = Machine::new(64, 24).batches(1_000);
        assert!(batches.iter().filter(|many| **many > 24).count() <= 2, "{batches:?}");
    }

    /// A sync takes as long as a hundred of those who bring the next request.
    #[test]
    fn half_of_those_who_come_are_written_at_once_where_that_brings_more() {
        let mut machine = Machine::new(64, 6);
        assert_eq!(machine.settled(), Company::AsMany(32));
        let batches = machine.batches(HOLDS - 1);
        assert!(batches.iter().all(|many| *many == 32), "it holds");
    }

    /// They do come if they are waited for, but too late to make up for it.
    #[test]
    fn nobody_waits_where_that_brings_less() {
        let mut machine = Machine { waiting: 10_000, ..Machine::new(64, 6) };
        assert_eq!(machine.settled(), Company::Nobody);
    }

    #[test]
    fn who_is_ready_goes_first_where_that_brings_the_most() {
        let mut machine = Machine { waiting: 10_000, ready: 14, ..Machine::new(64, 6) };
        assert_eq!(machine.settled(), Company::WhoeverIsReady);
    }

    /// The machine stands still for a second now and then, whoever has its turn.
    #[test]
    fn an_interruption_decides_nothing() {
        for hit in 0..3 {
            let mut machine = Machine::new(64, 6);
            machine.batches((SETTLING + LOOKED_AT) as u32 + 2);
            assert!(matches!(machine.pace.phase, Phase::Trying(_)));
            for batch in 0..ROUNDS as u32 * 3 * (BEFORE + COUNTED) {
                // In two turns of five it is the same one that is hit.
                let (round, turn) = (batch / (3 * (BEFORE + COUNTED)), batch / (BEFORE + COUNTED) % 3);
                if round < 2 && turn == hit && batch % (BEFORE + COUNTED) == BEFORE + 3 {
                    machine.now += Duration::from_secs(1);
                }
                machine.batch();
            }
            assert!(matches!(machine.pace.phase, Phase::Keeping { .. }));
            assert_eq!(machine.pace.company(), Company::AsMany(32), "{hit} was hit");
        }
    }

    #[test]
    fn who_comes_later_is_counted() {
        let mut machine = Machine::new(64, 6);
        assert_eq!(machine.settled(), Company::AsMany(32));
        // More come together than there were.
        (machine.callers, machine.usual) = (256, 70);
        machine.batches(3);
        machine.usual = 6;
        assert_eq!(machine.settled(), Company::AsMany(128));
    }

    /// The disk stands still now and then, and everybody comes at once.
    #[test]
    fn what_was_found_outlasts_a_crowd_now_and_then() {
        let mut machine = Machine::new(64, 6);
        assert_eq!(machine.settled(), Company::AsMany(32));
        for _ in 0..20 {
            (machine.callers, machine.usual) = (70, 70);
            machine.batches(2);
            (machine.callers, machine.usual) = (64, 6);
            machine.batches(100);
            assert_eq!(machine.pace.company(), Company::AsMany(32));
        }
    }

    /// Whoever is waited for leaves processors free meanwhile: then they are not scarce, so nobody is, and so on.
    #[test]
    fn what_cannot_be_tried_is_not_tried_for_ever() {
        let mut machine = Machine::new(64, 6);
        machine.batches((SETTLING + LOOKED_AT) as u32 + 2);
        for _ in 0..100 {
            let waits = matches!(machine.pace.company(), Company::AsMany(_));
            machine.pace.came(6, !waits, machine.now);
        }
        assert!(matches!(machine.pace.phase, Phase::Keeping { company: Company::Nobody, .. }), "{:?}", machine.pace);
    }

    #[test]
    fn who_has_left_is_not_waited_for() {
        let mut machine = Machine::new(256, 6);
        assert_eq!(machine.settled(), Company::AsMany(128));
        machine.callers = 16;
        // Once or twice they may only be late.
        machine.batches(2);
        assert_eq!(machine.pace.company(), Company::AsMany(128));
        machine.batches(1);
        assert_eq!(machine.pace.company(), Company::Nobody);
    }
}
