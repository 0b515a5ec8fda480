//! *Complete*, *reject* and *fail*: the owner says how it ended.
//!
//! A known outcome is never thrown away. It is taken late while no newer attempt began, nobody resolved and the attempt
//! did not give itself back; otherwise it is kept as evidence.

use std::sync::Arc;

use crate::{
    Anchor, BodyId, Outcome, OutcomeClass, Token,
    command::{Conflict, Done, Reply},
    event::{Cause, Event},
    policy::Policy,
    record::{EVIDENCE_INLINE, EVIDENCE_KEPT, End, Evidence, Final, Lease, Pending, Record, State},
    sha::Sha256,
};

use super::{
    Before, Moment, Step, Write,
    begin::final_answer,
    read::{Lapse, lapse, lease_end, reopened},
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Complete,
    Reject,
}

pub(super) fn finish(
    policy: &Policy,
    before: &Before<'_>,
    token: Token,
    outcome: &Outcome,
    verb: Verb,
    moment: Moment,
) -> Step {
    let Some(record) = before.read.as_deref() else { return tell_only(before, token, outcome) };
    if record.token() != token {
        return keep_as_evidence(before, record, token, outcome, moment);
    }
    let late = match (&record.state, record.attempt.end) {
        (State::Pending(pending), _) => lease_end(&pending.lease) <= before.now,
        (State::Open(_) | State::InDoubt(_), End::Lapsed { .. } | End::FailedUnknown | End::Failed) => true,
        (State::Open(_) | State::InDoubt(_), _) => {
            return keep_as_evidence(before, record, token, outcome, moment);
        }
        (State::Committed(done), End::Completed) => return again(record, verb == Verb::Complete, done, outcome),
        (State::Rejected(done), End::Rejected) => return again(record, verb == Verb::Reject, done, outcome),
        (State::Tombstone(stone), End::Completed | End::Rejected) => {
            let same = stone.rejected == (verb == Verb::Reject) && stone.digest == outcome.digest();
            return if same { Step::already() } else { other_outcome(record) };
        }
        (State::Committed(_) | State::Rejected(_) | State::Tombstone(_), _) => {
            return keep_as_evidence(before, record, token, outcome, moment);
        }
    };
    let retention = match verb {
        Verb::Complete => policy.success_retention(),
        Verb::Reject => policy.failure_retention(outcome.class),
    };
    let done = Final { outcome: outcome.clone(), decided: Anchor::Write, decided_wall: moment.wall, retention };
    let mut next = record.clone();
    next.earlier_doubt = None;
    let cause = match verb {
        Verb::Complete => {
            next.attempt.end = End::Completed;
            next.state = State::Committed(done);
            Cause::Complete
        }
        Verb::Reject => {
            next.attempt.end = End::Rejected;
            next.state = State::Rejected(done);
            Cause::Reject
        }
    };
    before.put(cause, next, Done { already: false, late })
}

/// Refuses an outcome that has no record to be kept with.
fn tell_only(before: &Before<'_>, token: Token, outcome: &Outcome) -> Step {
    let mut outcome = outcome.clone();
    outcome.drop_body_above(EVIDENCE_INLINE as u64);
    let event = before.event(Cause::Fenced, before.state(), token.attempt);
    let event = Event { refused: Some(Arc::new(outcome)), ..event };
    Step::new(Write::Nothing, Reply::Fenced, Some(event))
}

/// The owner repeats itself: the same is fine, something else is not.
fn again(record: &Record, same_verb: bool, done: &Final, outcome: &Outcome) -> Step {
    if same_verb && done.outcome.equals(outcome) { Step::already() } else { other_outcome(record) }
}

fn other_outcome(record: &Record) -> Step {
    Step::answer(Reply::Conflict(Conflict::OtherOutcome(final_answer(record).map(Box::new))))
}

pub(super) fn fail(before: &Before<'_>, token: Token, outcome: &Outcome) -> Step {
    let unknown = outcome.class == OutcomeClass::Unknown;
    let Some(record) = before.read.as_deref() else {
        // A first attempt that could not say leaves nothing if it had not started: said again, it is so already.
        return if unknown && token.attempt == 1 { Step::already() } else { before.fenced(token) };
    };
    if record.token() != token {
        return before.fenced(token);
    }
    match (&record.state, record.attempt.end) {
        (State::Pending(pending), _) if unknown => fail_unknown(before, record, pending),
        (State::Pending(pending), _) => opened(before, record, outcome, lease_end(&pending.lease) <= before.now),
        (State::Open(_) | State::InDoubt(_), End::Lapsed { .. } | End::FailedUnknown) if unknown => Step::already(),
        (State::Open(_) | State::InDoubt(_), End::Lapsed { .. } | End::FailedUnknown) => {
            opened(before, record, outcome, true)
        }
        (State::Open(open), End::Failed) => failed_again(record, open.failure.as_ref(), outcome),
        (State::InDoubt(_), End::Failed) => {
            let failure = record.earlier_doubt.as_ref().and_then(|doubt| doubt.failure.as_ref());
            failed_again(record, failure, outcome)
        }
        (State::Committed(_), End::Completed) | (State::Rejected(_), End::Rejected) => other_outcome(record),
        (State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_), _) => {
            before.fenced(token)
        }
    }
}

fn failed_again(record: &Record, failure: Option<&Outcome>, outcome: &Outcome) -> Step {
    let same = failure.is_some_and(|failure| failure.equals(outcome));
    if same { Step::already() } else { other_outcome(record) }
}

fn opened(before: &Before<'_>, record: &Record, outcome: &Outcome, late: bool) -> Step {
    let mut next = reopened(record, Anchor::Write, Some(outcome.clone()));
    next.attempt.end = End::Failed;
    before.put(Cause::Fail, next, Done { already: false, late })
}

/// The owner cannot say: as if it had vanished, but now.
fn fail_unknown(before: &Before<'_>, record: &Record, pending: &Pending) -> Step {
    let done = Done::default();
    // Before the start there is nothing to be unsure of: it ends as a lapse does, and leaves no print behind.
    let end = if pending.started { End::FailedUnknown } else { End::Lapsed { started: false } };
    match lapse(record, pending, Anchor::Write, end) {
        Lapse::Absent => before.remove(Cause::FailUnknown, record.attempt.number, done),
        Lapse::Becomes(next) => before.put(Cause::FailUnknown, *next, done),
        // Its lease is over: it was said before, or time has said it.
        Lapse::Stale if lease_end(&pending.lease) <= before.now => Step::already(),
        Lapse::Stale => {
            let lease = Lease { from: Anchor::Write, length: crate::Millis::ZERO };
            let state = State::Pending(Pending { started: pending.started, lease });
            before.put(Cause::FailUnknown, Record { state, ..record.clone() }, done)
        }
    }
}

/// Refuses an outcome without losing it.
fn keep_as_evidence(before: &Before<'_>, record: &Record, token: Token, outcome: &Outcome, moment: Moment) -> Step {
    let mut outcome = outcome.clone();
    let put_body = outcome.put_out_of_line(evidence_body(token, &outcome), EVIDENCE_INLINE);
    let known = record.evidence.iter().any(|kept| kept.attempt == token.attempt && kept.outcome.equals(&outcome));
    if known {
        return before.fenced(token);
    }
    let mut next = record.clone();
    if next.evidence.len() == EVIDENCE_KEPT {
        next.evidence.remove(0);
    }
    next.evidence.push(Evidence { attempt: token.attempt, outcome, wall: moment.wall });
    let event = before.event(Cause::Fenced, next.state.name(), token.attempt);
    let mut step = Step::new(Write::Put(Arc::new(next)), Reply::Fenced, Some(event));
    step.put_body = put_body;
    step
}

/// The same refused outcome always lies under the same name, so a repeat stores nothing twice.
fn evidence_body(token: Token, outcome: &Outcome) -> BodyId {
    let mut hash = Sha256::new();
    hash.update(b"hapax.evidence.v1");
    hash.update(&token.attempt.to_be_bytes());
    hash.update(&token.nonce.0);
    hash.update(&outcome.digest());
    BodyId(hash.finish())
}
