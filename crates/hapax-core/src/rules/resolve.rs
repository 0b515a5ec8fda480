//! *Resolve* and *claim_probe*: somebody other than the owner finds out what happened.

use std::sync::Arc;

use crate::{
    Anchor, Outcome, Stamp, Version,
    command::{Conflict, Done, Refused, Reply, Resolution, Resolve},
    event::Cause,
    policy::Policy,
    record::{End, Final, InDoubt, Open, Record, Resolved, State},
};

use super::{Before, Moment, Step};

pub(super) fn resolve(policy: &Policy, before: &Before<'_>, resolve: &Resolve, moment: Moment) -> Step {
    if resolve.reason.trim().is_empty() {
        return Step::answer(Reply::Refused(Refused::BlankReason));
    }
    let record = match doubtful(before, resolve.version) {
        Ok(record) => record,
        Err(conflict) => return Step::answer(Reply::Conflict(conflict)),
    };
    let decided = |outcome: &Outcome, retention| Final {
        outcome: outcome.clone(),
        decided: Anchor::Write,
        decided_wall: moment.wall,
        retention,
    };
    let state = match &resolve.resolution {
        Resolution::Committed(outcome) => State::Committed(decided(outcome, policy.success_retention())),
        Resolution::Rejected(outcome) => {
            let retention = policy.failure_retention(outcome.class);
            State::Rejected(decided(outcome, retention))
        }
        // The type asks for a posture: nothing is run again without one.
        Resolution::Open(_) => State::Open(Open { since: Anchor::Write, failure: None }),
    };
    let mut next = Record { state, earlier_doubt: None, ..record.clone() };
    // This is what fences the token: its owner can no longer end what somebody else has ended.
    next.attempt.end = End::Resolved;
    next.resolved =
        Some(Resolved { actor: Arc::clone(&resolve.actor), reason: Arc::clone(&resolve.reason), wall: moment.wall });
    before.put(Cause::Resolve, next, Done::default())
}

pub(super) fn claim_probe(before: &Before<'_>, version: Version, next_at: Stamp, moment: Moment) -> Step {
    let record = match doubtful(before, version) {
        Ok(record) => record,
        Err(conflict) => return Step::answer(Reply::Conflict(conflict)),
    };
    let State::InDoubt(doubt) = &record.state else {
        return Step::answer(Reply::Conflict(Conflict::WrongState(record.state.name())));
    };
    if let Some(until) = doubt.next_probe.filter(|until| moment.now < *until) {
        return Step::answer(Reply::Conflict(Conflict::ProbeClaimed { until }));
    }
    let claimed = InDoubt { since: doubt.since, probes: doubt.probes.saturating_add(1), next_probe: Some(next_at) };
    before.put(Cause::ClaimProbe, Record { state: State::InDoubt(claimed), ..record.clone() }, Done::default())
}

/// The record, if its version is the one that was judged and its end is still open to judgement.
fn doubtful<'a>(before: &'a Before<'_>, version: Version) -> Result<&'a Record, Conflict> {
    if before.version != version {
        return Err(Conflict::VersionMoved { now_at: before.version });
    }
    match before.read.as_deref() {
        Some(record) => match &record.state {
            State::InDoubt(_) | State::Pending(_) => Ok(record),
            State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
                Err(Conflict::WrongState(record.state.name()))
            }
        },
        None => Err(Conflict::WrongState(before.state())),
    }
}
