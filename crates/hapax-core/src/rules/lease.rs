//! *Start* and *renew*: what the owner of a running attempt asks for. Both are refused after the lapse, whether or not
//! the sweeper has passed.

use crate::{
    Anchor, Millis, Token,
    command::{Done, Refused, Reply},
    event::Cause,
    policy::Policy,
    record::{Lease, Pending, Record, State},
};

use super::{Before, Moment, Step, read::at};

pub(super) fn start(before: &Before<'_>, token: Token) -> Step {
    let Some((record, pending)) = held(before, token) else { return before.fenced(token) };
    if pending.started {
        return Step::already();
    }
    // Its provider has forgotten the key meanwhile: what an earlier attempt may have done would be done again.
    if record.is_beyond_help(before.now) {
        return before.fenced(token);
    }
    let state = State::Pending(Pending { started: true, lease: pending.lease.clone() });
    before.put(Cause::Start, Record { state, ..record.clone() }, Done::default())
}

pub(super) fn renew(policy: &Policy, before: &Before<'_>, token: Token, length: Millis, moment: Moment) -> Step {
    let Some((record, pending)) = held(before, token) else { return before.fenced(token) };
    let ran = moment.now.since(at(record.attempt.begun));
    if policy.max_attempt.is_some_and(|most| ran >= most) {
        return Step::answer(Reply::Refused(Refused::PastMaxAttempt));
    }
    let lease = Lease { from: Anchor::Write, length };
    let state = State::Pending(Pending { started: pending.started, lease });
    before.put(Cause::Renew, Record { state, ..record.clone() }, Done::default())
}

/// The attempt, if this token holds it right now.
fn held<'a>(before: &'a Before<'_>, token: Token) -> Option<(&'a Record, &'a Pending)> {
    let record = before.read.as_deref()?;
    match &record.state {
        State::Pending(pending) if record.token() == token => Some((record, pending)),
        State::Pending(_)
        | State::Open(_)
        | State::InDoubt(_)
        | State::Committed(_)
        | State::Rejected(_)
        | State::Tombstone(_) => None,
    }
}
