//! *Release*, *unstart* and *disown*: nothing happened, and nothing is to stay behind.

use std::sync::Arc;

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
        // It reads as absent here, but a write of this attempt may still be on its way: as long as the stored record
        // names the token, the release moves the version, so that the late write can only conflict. The answer is the
        // one that it would get after the sweeper.
        return match before.stored {
            Some(stored) if stored.token() == token => {
                before.remove(cause, token.attempt, Done { already: true, late: false })
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
        (State::Open(_) | State::InDoubt(_), End::Released) => return Step::already(),
        (State::Open(_) | State::InDoubt(_), End::FailedUnknown) => (true, true),
        (State::Open(_) | State::InDoubt(_), End::Failed)
        | (State::Committed(_), End::Completed)
        | (State::Rejected(_), End::Rejected) => {
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
    // Ours: nobody was told, so nothing ran, whatever it says about having started.
    if let Some(stored) = before.stored.filter(|stored| stored.attempt.nonce == nonce) {
        match (&stored.state, stored.attempt.end, &before.read) {
            (State::Pending(_), _, None) => return before.remove(Cause::Disown, stored.attempt.number, done),
            (State::Pending(_), _, Some(read))
            | (State::Open(_) | State::InDoubt(_), End::Lapsed { .. }, Some(read)) => {
                return ended_cleanly(before, read, Cause::Disown, done);
            }
            (
                State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_),
                _,
                _,
            ) => {}
        }
    }
    if before.version != expected {
        // The write can no longer land. The same answer as above, so that it tells nobody whether the sweeper passed.
        return Step::answer(Reply::Done(done));
    }
    // Still as the begin had found it: the write may yet come, also where the record is one that this nonce left.
    let (write, state, attempt) = match before.stored {
        Some(stored) => (Write::Put(Arc::new(stored.clone())), stored.state.name(), stored.attempt.number),
        None => (Write::Remove, StateName::Absent, 0),
    };
    Step::new(write, Reply::Done(done), Some(before.event(Cause::Disown, state, attempt)))
}
