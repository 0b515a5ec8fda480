//! *Expire* and *evict*: what time and lack of room do to a record.

use std::sync::Arc;

use crate::{
    Ties,
    command::{Done, Refused, Reply},
    event::Cause,
    record::{Record, State},
};

use super::{
    Before, Step,
    read::{Read, tombstone},
};

/// Writes down what time has done. It changes nothing that anybody could see.
pub(super) fn expire(before: &Before<'_>) -> Step {
    let Some(stored) = before.stored else { return Step::already() };
    let cause = match &stored.state {
        State::Pending(_) => Cause::Lapse,
        State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
            Cause::Expire
        }
    };
    let mut step = match &before.read {
        None => before.remove(cause, stored.attempt.number, Done::default()),
        Some(Read::Moved(read)) => before.put(cause, Record::clone(read), Done::default()),
        Some(Read::Stored(_)) => return Step::already(),
    };
    if let Some(event) = &mut step.event {
        event.from = stored.state.name();
    }
    step
}

/// The group is done with it: from here on its own window counts, from where it always did.
pub(super) fn let_go(before: &Before<'_>) -> Step {
    let Some(record) = before.read.as_deref() else { return Step::already() };
    let Some(ties) = record.ties.as_ref().filter(|ties| ties.held) else { return Step::already() };
    let ties = Ties { held: false, ..Ties::clone(ties) };
    let next = Record { ties: Some(Arc::new(ties)), ..record.clone() };
    before.put(Cause::LetGo, next, Done::default())
}

/// Drops the body of a final record before its time. What it was stays known until the original retention ends.
pub(super) fn evict(before: &Before<'_>, tombstones_full: bool) -> Step {
    let Some(record) = before.read.as_deref() else { return Step::already() };
    match &record.state {
        // Its outcome may be what undoing it starts from.
        State::Committed(_) if record.is_held() => Step::answer(Reply::Refused(Refused::Live)),
        State::Committed(_) | State::Rejected(_) if tombstones_full => {
            if record.effect.may_rerun() {
                before.remove(Cause::Evict, record.attempt.number, Done::default())
            } else {
                Step::answer(Reply::Refused(Refused::NoTombstones))
            }
        }
        State::Committed(done) | State::Rejected(done) => {
            before.put(Cause::Evict, tombstone(record, done), Done::default())
        }
        State::Tombstone(_) => Step::already(),
        State::Pending(_) | State::Open(_) | State::InDoubt(_) => Step::answer(Reply::Refused(Refused::Live)),
    }
}
