//! From an outcome to the command that ends its attempt.

use crate::{
    Outcome, OutcomeClass, Token,
    command::{Command, Release},
    policy::{Disposition, Policy},
    record::{End, Record, State},
};

/// The command by which its owner says how an attempt ended, as the policy wants an outcome of this class to be said.
///
/// `held` is the record as last seen. It may be older than the stored one: then an attempt that is taken for not started
/// is refused as [`crate::command::Refused::AlreadyStarted`], and this is asked again with the newer record.
#[must_use]
pub fn ending(policy: &Policy, held: Option<&Record>, token: Token, outcome: &Outcome) -> Command {
    match policy.disposition(outcome.class, may_have_started(held, token)) {
        Disposition::Complete => Command::Complete { token, outcome: outcome.clone() },
        Disposition::Reject => Command::Reject { token, outcome: outcome.clone() },
        Disposition::Fail => Command::Fail { token, outcome: outcome.clone() },
        Disposition::FailUnknown => {
            Command::Fail { token, outcome: Outcome { class: OutcomeClass::Unknown, ..outcome.clone() } }
        }
        Disposition::Release => Command::Release { token, why: why_released(outcome.class) },
    }
}

/// Only a class that says so is the word that nothing happened; all others are given back for not having started, and the
/// rules look whether that is so.
const fn why_released(class: OutcomeClass) -> Release {
    match class {
        OutcomeClass::NotRecordable => Release::NoEffect,
        OutcomeClass::Success
        | OutcomeClass::FinalFailure
        | OutcomeClass::RetryableFailure
        | OutcomeClass::NotAdmitted
        | OutcomeClass::Cancelled
        | OutcomeClass::Unknown => Release::BeforeStart,
    }
}

fn may_have_started(held: Option<&Record>, token: Token) -> bool {
    // Of an attempt without a record there is nothing to be unsure of, and a newer one has fenced it: giving back writes
    // nothing in either case.
    let Some(record) = held.filter(|record| record.token() == token) else { return false };
    match (&record.state, record.attempt.end) {
        (State::Pending(pending), _) => pending.started,
        (State::Open(_) | State::InDoubt(_), End::Lapsed { started }) => started,
        // It was given back; said again, it is so already.
        (State::Open(_) | State::InDoubt(_), End::Released | End::TakenOver) => false,
        (
            State::Open(_) | State::InDoubt(_),
            End::Running | End::Completed | End::Rejected | End::Failed | End::FailedUnknown | End::Resolved,
        )
        | (State::Committed(_) | State::Rejected(_) | State::Tombstone(_), _) => true,
    }
}
