//! *Begin*: the verdicts, first that applies.

use super::{Begin, Ended, Model, Op, Place, Said};

impl Model {
    pub(super) fn begin(&mut self, begin: Begin, now: i64) -> Said {
        let Some(op) = self.op else {
            return self.unless_turned_away(begin, now, 1, None, true);
        };
        let decided = op.decided;
        // WindowClosed: a tombstone past its retention.
        if op.place == Place::Tombstone && decided.is_some_and(|d| now >= d.at + d.kept) {
            return Said::WindowClosed;
        }
        // A takeover is judged before Mismatch: a not-started Pending of an older epoch.
        if let (Place::Pending { started: false, .. }, Some(older), Some((mine, _))) = (op.place, op.epoch, begin.epoch)
            && older < mine
            && !op.beyond_help(now)
        {
            return self.unless_turned_away(begin, now, op.attempt + 1, op.guard_before, false);
        }
        if op.guard.is_some_and(|guard| guard != begin.print) {
            return Said::Mismatch;
        }
        let mine = op.nonce == begin.nonce && !op.beyond_help(now);
        match op.place {
            Place::Committed | Place::Rejected | Place::Tombstone => decided.map_or(Said::Conflict, |d| Said::Replay {
                what: d.what,
                whole: op.place != Place::Tombstone,
                rejected: d.rejected,
                attempt: op.attempt,
            }),
            Place::Pending { started, .. } if mine => self.same_ticket(begin, started, now),
            Place::Pending { .. } => Said::InFlight,
            Place::Open { .. } | Place::InDoubt { .. } if mine && op.ended == Ended::LapsedAfterStart => {
                self.same_ticket(begin, true, now)
            }
            Place::Open { .. } | Place::InDoubt { .. } if mine && op.ended == Ended::LapsedBeforeStart => {
                self.same_ticket(begin, false, now)
            }
            // Inside the provider's window another call with this key is no second effect.
            Place::InDoubt { .. } if op.honoured.is_some_and(|window| now < op.first + window) => {
                self.unless_turned_away(begin, now, op.attempt + 1, op.guard, false)
            }
            Place::InDoubt { .. } => Said::InDoubt,
            Place::Open { .. } => self.unless_turned_away(begin, now, op.attempt + 1, op.guard, false),
        }
    }

    fn unless_turned_away(&mut self, begin: Begin, now: i64, attempt: u32, guard: Option<u8>, new: bool) -> Said {
        if !begin.admitted || (new && !begin.room) {
            return Said::Refused;
        }
        if begin.epoch.is_some_and(|(mine, group)| mine < group) {
            return Said::Superseded;
        }
        let before = self.op;
        self.op = Some(Op {
            first: before.map_or(now, |op| op.first),
            honoured: begin.honoured.or(before.and_then(|op| op.honoured)),
            doubt_before: before.is_some_and(|op| op.doubt_before || matches!(op.place, Place::InDoubt { .. })),
            attempt,
            nonce: begin.nonce,
            class: begin.class,
            epoch: begin.epoch.map(|(mine, _)| mine),
            print: begin.print,
            guard: Some(begin.print),
            guard_before: guard,
            ended: Ended::Not,
            place: Place::Pending { started: begin.started, lease_end: now + self.knobs.lease },
            decided: None,
        });
        Said::Execute((attempt, begin.nonce))
    }

    /// The same ticket, its lease renewed. Its holder was admitted before; a newer epoch still supersedes it.
    fn same_ticket(&mut self, begin: Begin, started: bool, now: i64) -> Said {
        if begin.epoch.is_some_and(|(mine, group)| mine < group) {
            return Said::Superseded;
        }
        let lease_end = now + self.knobs.lease;
        let Some(op) = &mut self.op else { return Said::Conflict };
        op.print = begin.print;
        op.guard = Some(begin.print);
        op.ended = Ended::Not;
        op.place = Place::Pending { started: started || begin.started, lease_end };
        Said::Execute(op.token())
    }
}
