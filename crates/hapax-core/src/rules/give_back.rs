//! *Release*, *unstart* and *disown*: nothing happened, and nothing is to stay behind.

use crate::{
    Anchor, Nonce, Token, Version,
    command::{Conflict, Done, Refused, Release, Reply},
    event::Cause,
    record::{End, Record, State, StateName},
};

use super::{
    Before, Step, Write,
    read::{clean_end, lease_end},
};

pub(super) fn release(before: &Before<'_>, token: Token, why: Release) -> Step {
    end_cleanly(before, token, why, Cause::Release)
}

pub(super) fn unstart(before: &Before<'_>, token: Token) -> Step {
    end_cleanly(before, token, Release::NoEffect, Cause::Unstart)
}

fn end_cleanly(before: &Before<'_>, token: Token, why: Release, cause: Cause) -> Step {
    let Some(record) = before.read.as_deref() else {
        // A lapse reads as absent here, but a write of this attempt may still be on its way: as long as the stored
        // record names the token, the release moves the version, so that the late write can only conflict.
        return match before.stored {
            Some(stored) if stored.token() == token && matches!(stored.state, State::Pending(_)) => {
                before.remove(cause, token.attempt, Done { already: false, late: true })
            }
            Some(_) | None => Step::already(),
        };
    };
    if record.token() != token {
        return before.fenced(token);
    }
    let (started, late) = match (&record.state, record.attempt.end) {
        (State::Pending(pending), _) => (pending.started, lease_end(&pending.lease) <= before.now),
        (State::Open(_) | State::InDoubt(_), End::Lapsed { started }) => (started, true),
        (State::Open(_), End::Released) => return Step::already(),
        (State::Open(_) | State::InDoubt(_), End::FailedUnknown) => (true, true),
        (State::Open(_), End::Failed) | (State::Committed(_), End::Completed) | (State::Rejected(_), End::Rejected) => {
            return Step::answer(Reply::Conflict(Conflict::WrongState(record.state.name())));
        }
        (State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_), _) => {
            return before.fenced(token);
        }
    };
    match why {
        Release::BeforeStart if started => Step::answer(Reply::Refused(Refused::AlreadyStarted)),
        Release::BeforeStart | Release::NoEffect => ended_cleanly(before, record, cause, Done { already: false, late }),
    }
}

fn ended_cleanly(before: &Before<'_>, record: &Record, cause: Cause, done: Done) -> Step {
    match clean_end(record, Anchor::Write) {
        None => before.remove(cause, record.attempt.number, done),
        Some(open) => before.put(cause, open, done),
    }
}

/// Takes back a begin whose answer nobody saw, or moves the version so that its write can no longer land.
pub(super) fn disown(before: &Before<'_>, nonce: Nonce, expected: Version) -> Step {
    let done = Done::default();
    match before.stored {
        // Ours: nobody was told, so nothing ran, whatever it says about having started.
        Some(stored) if stored.attempt.nonce == nonce => match (&stored.state, &before.read) {
            (State::Pending(_), None) => before.remove(Cause::Disown, stored.attempt.number, done),
            (State::Pending(_), Some(read)) => ended_cleanly(before, read, Cause::Disown, done),
            (State::Open(_) | State::InDoubt(_), Some(read)) if matches!(read.attempt.end, End::Lapsed { .. }) => {
                ended_cleanly(before, read, Cause::Disown, done)
            }
            (
                State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_),
                _,
            ) => Step::already(),
        },
        // Not ours, and still as the begin had found it: the write may yet come.
        Some(stored) if before.version == expected => {
            let event = before.event(Cause::Disown, stored.state.name(), stored.attempt.number);
            Step::new(Write::Put(Box::new(stored.clone())), Reply::Done(done), Some(event))
        }
        None if before.version == expected => {
            let event = before.event(Cause::Disown, StateName::Absent, 0);
            Step::new(Write::Remove, Reply::Done(done), Some(event))
        }
        Some(_) | None => Step::already(),
    }
}
