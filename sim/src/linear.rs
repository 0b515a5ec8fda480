//! Whether a recorded history of one key can be told as one thing after the other.
//!
//! Each operation took place at one moment between its call and its answer. One without an answer may have taken place
//! at any moment after its call, or never. Where a store loses answers the engine says a command again, so an answered
//! one, too, may have been carried out once before the time that was answered. What each does, and is told, is the
//! naive model's word.

use std::collections::HashSet;

use crate::model::{Cmd, Knobs, Model, Said, Token};

/// What a caller was told, as far as repeating does not change it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Heard {
    Execute(Token),
    Replay {
        what: u8,
        rejected: bool,
    },
    InFlight,
    InDoubt,
    Mismatch,
    Done,
    Fenced,
    Conflict,
    NotAllowed,
    /// What no history here should meet.
    Odd,
}

impl From<Said> for Heard {
    fn from(said: Said) -> Self {
        match said {
            Said::Execute(token) => Self::Execute(token),
            Said::Replay { what, rejected, .. } => Self::Replay { what, rejected },
            Said::InFlight => Self::InFlight,
            Said::InDoubt => Self::InDoubt,
            Said::Mismatch => Self::Mismatch,
            Said::Ok | Said::OkLate | Said::OkAlready => Self::Done,
            Said::Fenced => Self::Fenced,
            Said::Conflict => Self::Conflict,
            Said::NotAllowed => Self::NotAllowed,
            Said::WindowClosed | Said::Refused | Said::Superseded => Self::Odd,
        }
    }
}

/// One operation of a history. Moments are numbers that only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    pub cmd: Cmd,
    pub called: u64,
    /// When and what it was told; `None`: nobody knows.
    pub answered: Option<(u64, Heard)>,
}

/// What was found out about a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Linearizable,
    /// No order explains it.
    Impossible,
    /// Too many orders to try.
    Undecided,
}

/// So many places are looked at before a history is left undecided.
const MOST: usize = 2_000_000;

/// Long enough that nothing lapses or expires.
pub const LONG: i64 = 1_000_000_000;

/// The rules of a world without time.
pub const KNOBS: Knobs =
    Knobs { lease: LONG, success: LONG, failure: LONG, open: LONG, tombstone: LONG, stale: false, refuse: false };

/// Looks for an order that explains the history. At most 64 operations.
#[must_use]
pub fn check(history: &[Op]) -> Verdict {
    let mut search = Search { history, seen: HashSet::new() };
    search.from(0, 0, Model::new(KNOBS))
}

struct Search<'a> {
    history: &'a [Op],
    seen: HashSet<(u64, u64, Model)>,
}

impl Search<'_> {
    /// `done`: the answered operations that have been placed; `before`: those that were carried out unheard.
    fn from(&mut self, done: u64, before: u64, model: Model) -> Verdict {
        let open = |index: usize| done & (1 << index) == 0;
        // Whatever is placed next was called before the first answer that is still owed.
        let mut owed = u64::MAX;
        for (index, op) in self.history.iter().enumerate() {
            if let Some((at, _)) = op.answered
                && open(index)
            {
                owed = owed.min(at);
            }
        }
        if owed == u64::MAX {
            return Verdict::Linearizable;
        }
        if self.seen.len() > MOST {
            return Verdict::Undecided;
        }
        if !self.seen.insert((done, before, model)) {
            return Verdict::Impossible;
        }
        let mut undecided = false;
        let mut note = |verdict: Verdict| {
            undecided |= verdict == Verdict::Undecided;
            verdict == Verdict::Linearizable
        };
        for index in 0..self.history.len() {
            let op = self.history[index];
            if op.called > owed || !open(index) {
                continue;
            }
            let mut next = model;
            let said = Heard::from(next.step(op.cmd, 0));
            if let Some((_, heard)) = op.answered
                && heard == said
                && note(self.from(done | 1 << index, before, next))
            {
                return Verdict::Linearizable;
            }
            let unheard = before & (1 << index) == 0 && next != model;
            if unheard && note(self.from(done, before | 1 << index, next)) {
                return Verdict::Linearizable;
            }
        }
        if undecided { Verdict::Undecided } else { Verdict::Impossible }
    }
}
