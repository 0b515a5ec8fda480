//! Every accepted write has to be a step that the specification knows. Judged by plain words, not by the rules.

use hapax_core::{
    Anchor, Record, Stamp, State,
    policy::{AfterWindow, OnLapse},
    record::{End, Final, Pending, Tombstone},
};

use super::{Log, Written};
use crate::world::history::History;

pub(super) fn check(log: &Log, history: &History) {
    for (id, writes) in &log.writes {
        let mut before: Option<&Written> = None;
        for write in writes {
            let peak = before.map_or(0, |before| log.peak(before.place, before.stamp, write.place));
            let stood = before.and_then(|before| before.record.as_deref());
            if let Err(broken) = judge(stood, write.record.as_deref(), peak) {
                history.violation(format!("{broken}: {id:?} at entry {}", write.place));
            }
            before = Some(write);
        }
    }
}

pub(super) const fn at(anchor: Anchor) -> u64 {
    anchor.resolve(Stamp(0)).0
}

fn end(from: Anchor, span: hapax_core::Span) -> Option<u64> {
    span.end(Stamp(at(from))).map(|end| end.0)
}

pub(super) fn lapsed(pending: &Pending, peak: u64) -> bool {
    at(pending.lease.from).saturating_add(pending.lease.length.0) <= peak
}

fn final_of(record: &Record) -> Option<&Final> {
    match &record.state {
        State::Committed(done) | State::Rejected(done) => Some(done),
        State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Tombstone(_) => None,
    }
}

const fn stone_of(record: &Record) -> Option<&Tombstone> {
    match &record.state {
        State::Tombstone(stone) => Some(stone),
        State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) => None,
    }
}

/// When the answer of a final record is no longer given.
pub(super) fn retention_end(record: &Record) -> Option<u64> {
    match (final_of(record), stone_of(record)) {
        (Some(done), _) => end(done.decided, done.retention),
        (None, Some(stone)) => end(stone.decided, stone.retention),
        (None, None) => None,
    }
}

/// Whether it may read as absent at some moment up to `peak`.
pub(super) fn gone(record: &Record, peak: u64) -> bool {
    let over = |end: Option<u64>| end.is_some_and(|end| end <= peak);
    match &record.state {
        State::Pending(pending) => {
            let lease_end = at(pending.lease.from).saturating_add(pending.lease.length.0);
            let clean = !pending.started && record.attempt.number == 1 && record.rules.on_lapse != OnLapse::Stale;
            let then = record.rules.open_retention.end(Stamp(lease_end)).map(|end| end.0);
            lapsed(pending, peak) && (clean || (opens(record, peak) && over(then)))
        }
        State::Open(open) => over(end(open.since, record.rules.open_retention)),
        State::InDoubt(_) => false,
        State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
            let more = match record.rules.after_window {
                AfterWindow::Refuse => record.rules.tombstone_retention.end(Stamp(0)).map_or(u64::MAX, |end| end.0),
                AfterWindow::New => 0,
            };
            over(retention_end(record).map(|end| end.saturating_add(more)))
        }
    }
}

/// Whether the next attempt may begin at some moment up to `peak`.
fn opens(record: &Record, peak: u64) -> bool {
    match &record.state {
        State::Open(_) => true,
        State::Pending(pending) => {
            let stale = record.rules.on_lapse == OnLapse::Stale;
            let leave = !pending.started || record.effect.may_rerun();
            lapsed(pending, peak) && !stale && leave
        }
        State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => false,
    }
}

fn judge(before: Option<&Record>, next: Option<&Record>, peak: u64) -> Result<(), &'static str> {
    match (before, next) {
        (None, None) => Ok(()),
        (None, Some(next)) => match &next.state {
            State::Pending(_) if next.attempt.number == 1 => Ok(()),
            State::Pending(_) => Err("2: an attempt other than the first began out of nothing"),
            State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
                Err("C13: a record was made out of nothing by something other than a begin")
            }
        },
        (Some(before), None) => removed(before, peak),
        (Some(before), Some(next)) => {
            if before.about.tenant != next.about.tenant || before.about.surface != next.about.surface {
                return Err("10: one record served two tenants or surfaces");
            }
            if before.token() == next.token() {
                same_attempt(before, next, peak)
            } else {
                new_attempt(before, next, peak)
            }
        }
    }
}

fn removed(before: &Record, peak: u64) -> Result<(), &'static str> {
    if gone(before, peak) {
        return Ok(());
    }
    match &before.state {
        // Given back, disowned, or lapsed before its start.
        State::Pending(_) | State::InDoubt(_) if before.attempt.number == 1 => Ok(()),
        State::Open(_) if before.attempt.number == 1 => match before.attempt.end {
            End::Lapsed { .. } | End::FailedUnknown => Ok(()),
            End::Running
            | End::Completed
            | End::Rejected
            | End::Failed
            | End::Released
            | End::Resolved
            | End::TakenOver => Err("8: an open record was removed before its time"),
        },
        State::Open(_) => Err("8: an open record was removed before its time"),
        State::Pending(_) | State::InDoubt(_) => Err("9: live work was removed"),
        State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
            Err("4: a final record was removed inside its retention")
        }
    }
}

fn new_attempt(before: &Record, next: &Record, peak: u64) -> Result<(), &'static str> {
    let State::Pending(_) = &next.state else { return Err("1: a token was changed by something other than a begin") };
    let number = next.attempt.number;
    if number == 1 {
        return if gone(before, peak) {
            Ok(())
        } else {
            Err("2: a first attempt began over a record that still stood")
        };
    }
    if number != before.attempt.number + 1 {
        return Err("1: an attempt was skipped or came back");
    }
    if opens(before, peak) {
        return Ok(());
    }
    match &before.state {
        State::Pending(pending) => {
            let takeover = before.attempt.epoch.zip(next.attempt.epoch).is_some_and(|(older, newer)| older < newer);
            match (pending.started, takeover) {
                (false, true) => Ok(()),
                (true, _) => Err("2: a new attempt began although a started one had not ended"),
                (false, false) => Err("2: a new attempt began although another held its lease"),
            }
        }
        State::InDoubt(_) => Err("3: a new attempt began over a doubt"),
        State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
            Err("4: a new attempt began over a final outcome")
        }
        State::Open(_) => Ok(()),
    }
}

fn same_attempt(before: &Record, next: &Record, peak: u64) -> Result<(), &'static str> {
    let ended = before.attempt.end;
    // An outcome comes late while nobody resolved and the attempt did not give itself back.
    let still_heard = match (&before.state, ended) {
        (State::Pending(_), _) => true,
        (State::Open(_) | State::InDoubt(_), End::Lapsed { .. } | End::Failed | End::FailedUnknown) => true,
        (State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_), _) => {
            false
        }
    };
    let live = matches!(before.state, State::Pending(_) | State::InDoubt(_));
    match &next.state {
        State::Pending(_) => match &before.state {
            State::Pending(_) => Ok(()),
            State::Open(_) | State::InDoubt(_) if matches!(ended, End::Lapsed { .. }) => Ok(()),
            State::Open(_) | State::InDoubt(_) => Err("6: an attempt that had ended went on"),
            State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => Err("4: a final outcome was undone"),
        },
        State::Open(_) => match (next.attempt.end, &before.state) {
            (_, State::Committed(_) | State::Rejected(_) | State::Tombstone(_)) => Err("4: a final outcome was undone"),
            (_, State::Open(_)) => Ok(()),
            (End::Resolved, _) if live => Ok(()),
            (End::Failed | End::Released, _) => Ok(()),
            (End::Lapsed { started: false }, _) => Ok(()),
            (End::Lapsed { started: true } | End::FailedUnknown, _) if next.effect.may_rerun() => Ok(()),
            (End::Lapsed { .. } | End::FailedUnknown, _) => Err("3: an unknown end was taken for a failure"),
            (End::Running | End::Completed | End::Rejected | End::Resolved | End::TakenOver, _) => {
                Err("1: an attempt that has not ended is open")
            }
        },
        State::InDoubt(_) => match &before.state {
            State::InDoubt(_) => Ok(()),
            State::Pending(pending) => {
                let unknown = next.attempt.end == End::FailedUnknown;
                if pending.started && (unknown || lapsed(pending, peak)) {
                    Ok(())
                } else {
                    Err("3: a doubt without cause")
                }
            }
            State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
                Err("3: what had ended came into doubt")
            }
        },
        State::Committed(done) | State::Rejected(done) => match &before.state {
            State::Committed(known) | State::Rejected(known) => {
                let same = known.outcome.digest() == done.outcome.digest()
                    && known.decided == done.decided
                    && known.retention == done.retention;
                if same { Ok(()) } else { Err("4: a final outcome was changed") }
            }
            State::Tombstone(_) => Err("4: a tombstone came back to life"),
            State::Pending(_) | State::InDoubt(_) | State::Open(_) => match next.attempt.end {
                End::Resolved if live => Ok(()),
                End::Completed | End::Rejected if still_heard => Ok(()),
                End::Completed | End::Rejected => Err("6: an outcome was taken from a token that no longer counts"),
                End::Running
                | End::Failed
                | End::FailedUnknown
                | End::Released
                | End::Lapsed { .. }
                | End::Resolved
                | End::TakenOver => Err("1: a final outcome that nobody gave"),
            },
        },
        State::Tombstone(stone) => {
            let same = |digest: [u8; 32], decided: Anchor, retention| {
                digest == stone.digest && decided == stone.decided && retention == stone.retention
            };
            match &before.state {
                State::Committed(done) | State::Rejected(done)
                    if same(done.outcome.digest(), done.decided, done.retention) =>
                {
                    Ok(())
                }
                State::Tombstone(known) if same(known.digest, known.decided, known.retention) => Ok(()),
                State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => Err("4: a tombstone says otherwise"),
                State::Pending(_) | State::InDoubt(_) | State::Open(_) => Err("9: live work was evicted"),
            }
        }
    }
}
