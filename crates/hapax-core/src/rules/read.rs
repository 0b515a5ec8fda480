//! What a record reads as at a moment. A lapse or an expiry reads the same whether or not it was written down.

use std::{borrow::Cow, ops::Deref, sync::Arc};

use crate::{
    Anchor, Outcome, Stamp,
    policy::OnLapse,
    record::{EarlierDoubt, End, Final, InDoubt, Lease, Open, Pending, Record, State, Tombstone},
};

use super::windows::window_end;

/// A record as it reads at some moment. As small as a pointer while time has done nothing to it, as to most.
pub(super) enum Read<'a> {
    Stored(&'a Record),
    /// Time has made it another one.
    Moved(Box<Record>),
}

impl Deref for Read<'_> {
    type Target = Record;

    fn deref(&self) -> &Record {
        match self {
            Self::Stored(record) => record,
            Self::Moved(record) => record,
        }
    }
}

/// The record as it reads at `now`, or `None` if it reads as absent.
#[must_use]
pub fn as_read(record: &Record, now: Stamp) -> Option<Cow<'_, Record>> {
    read_at(record, now).map(|read| match read {
        Read::Stored(record) => Cow::Borrowed(record),
        Read::Moved(record) => Cow::Owned(*record),
    })
}

/// As [`as_read`], for the rules themselves.
pub(super) fn read_at(record: &Record, now: Stamp) -> Option<Read<'_>> {
    match &record.state {
        State::Pending(pending) => {
            let end = lease_end(&pending.lease);
            if now < end {
                return Some(Read::Stored(record));
            }
            match lapse(record, pending, Anchor::At(end), End::Lapsed { started: pending.started }) {
                Lapse::Stale => Some(Read::Stored(record)),
                Lapse::Absent => None,
                // The open window counts from the lease's end, so it may be over as well.
                Lapse::Becomes(lapsed) => match window_end(&lapsed) {
                    Some(over) if over <= now => None,
                    Some(_) | None => Some(Read::Moved(lapsed)),
                },
            }
        }
        State::InDoubt(_) => Some(Read::Stored(record)),
        State::Open(_) | State::Tombstone(_) => match window_end(record) {
            Some(over) if over <= now => None,
            Some(_) | None => Some(Read::Stored(record)),
        },
        State::Committed(_) if record.is_held() => Some(Read::Stored(record)),
        State::Committed(done) | State::Rejected(done) => {
            let Some(over) = done.retention.end(at(done.decided)) else { return Some(Read::Stored(record)) };
            if now < over {
                return Some(Read::Stored(record));
            }
            let stone = tombstone(record, done);
            match window_end(&stone) {
                Some(end) if end <= now => None,
                Some(_) | None => Some(Read::Moved(Box::new(stone))),
            }
        }
    }
}

/// When this lease ends. The record is settled, so the anchor is a moment; an unsettled one counts from the start of time.
#[must_use]
pub fn lease_end(lease: &Lease) -> Stamp {
    at(lease.from).plus(lease.length)
}

/// What is left when the body goes.
pub(super) fn tombstone(record: &Record, done: &Final) -> Record {
    let stone = Tombstone {
        rejected: matches!(record.state, State::Rejected(_)),
        status: done.outcome.status,
        digest: done.outcome.digest(),
        decided: done.decided,
        decided_wall: done.decided_wall,
        retention: done.retention,
    };
    Record { state: State::Tombstone(stone), ..record.clone() }
}

pub(super) enum Lapse {
    Absent,
    /// Stays pending; its token is valid until somebody resolves it.
    Stale,
    Becomes(Box<Record>),
}

/// What an attempt becomes that vanished, or whose owner cannot say what happened.
pub(super) fn lapse(record: &Record, pending: &Pending, since: Anchor, end: End) -> Lapse {
    let mut lapsed = match (pending.started, record.rules.on_lapse) {
        (true | false, OnLapse::Stale) => return Lapse::Stale,
        (false, OnLapse::Open | OnLapse::InDoubt) => match clean_end(record, since) {
            None => return Lapse::Absent,
            Some(open) => open,
        },
        (true, OnLapse::Open) => reopened(record, since, None),
        (true, OnLapse::InDoubt) => {
            Record { state: State::InDoubt(InDoubt { since, probes: 0, next_probe: None }), ..record.clone() }
        }
    };
    lapsed.attempt.end = end;
    lapsed.attempt.lease = Some(pending.lease.length);
    Lapse::Becomes(Box::new(lapsed))
}

/// What an attempt leaves that ended before any effect: nothing, or, if attempts went before it, what they left.
pub(super) fn clean_end(record: &Record, since: Anchor) -> Option<Record> {
    if record.attempt.number == 1 {
        return None;
    }
    let mut left = reopened(record, since, None);
    left.attempt.end = End::Released;
    Some(left)
}

/// An attempt ended so that the next may run. That is its own word about itself: where it ran beside the doubt of an
/// earlier one, that doubt is what it leaves.
pub(super) fn reopened(record: &Record, since: Anchor, failure: Option<Outcome>) -> Record {
    let Some(earlier) = &record.earlier_doubt else {
        return Record { state: State::Open(Open { since, failure }), ..record.clone() };
    };
    let doubt = InDoubt { since: Anchor::At(earlier.since), probes: 0, next_probe: None };
    let earlier = EarlierDoubt { failure, ..EarlierDoubt::clone(earlier) };
    Record { state: State::InDoubt(doubt), earlier_doubt: Some(Arc::new(earlier)), ..record.clone() }
}

pub(super) const fn at(anchor: Anchor) -> Stamp {
    anchor.resolve(Stamp(0))
}
