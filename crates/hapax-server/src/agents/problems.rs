//! What groups, beats, memos and plans refuse, in the words of this API.

use hapax_core::{Millis, beat::NoBeat, group::WhyNot};
use hapax_engine::{BeatError, GroupError, MemoError, NoRoom, UnwindError};
use http::StatusCode;

use crate::problem::{Next, Problem};

/// Nobody made it, its time is over, or it is somebody else's: the same words for all.
pub(super) fn unknown_group() -> Problem {
    let detail = "no group of yours has this id; create it first, or it was closed long ago";
    Problem::new(StatusCode::NOT_FOUND, "HX0151", "The group is not known here", detail, Next::FixRequest)
}

impl From<NoRoom> for Problem {
    fn from(full: NoRoom) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let problem = Self::new(status, "HX0150", "There is no room for one more", full.to_string(), Next::RetryLater);
        problem.after(Millis::from_secs(60))
    }
}

impl From<GroupError> for Problem {
    #[allow(clippy::wildcard_enum_match_arm, reason = "these errors may grow")]
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::Refused { why: WhyNot::Absent, .. } => unknown_group(),
            GroupError::Refused { group, why } => {
                let next = match why {
                    WhyNot::Superseded { .. } => Next::Stop,
                    // A group of its own: fork.
                    WhyNot::Committed { .. } | WhyNot::Unwinding | WhyNot::Closed | WhyNot::Full | WhyNot::Absent => {
                        Next::NewKey
                    }
                };
                let title = "The group refuses";
                Self::new(StatusCode::CONFLICT, "HX0090", title, why.to_string(), next).about(group)
            }
            error @ GroupError::Level { .. } => level(&error),
            GroupError::NoRoom(full) => full.into(),
            GroupError::Engine(error) => error.into(),
            // Whatever comes to be added is no fault of the caller's.
            other => crate::problem::store_down(other),
        }
    }
}

fn level(error: &GroupError) -> Problem {
    let title = "The store keeps no index of groups";
    Problem::new(StatusCode::NOT_IMPLEMENTED, "HX0091", title, error.to_string(), Next::AskOperator)
}

impl From<BeatError> for Problem {
    #[allow(clippy::wildcard_enum_match_arm, reason = "these errors may grow")]
    fn from(error: BeatError) -> Self {
        let refused = |status, next| Self::new(status, "HX0096", "There is no such beat", error.to_string(), next);
        match error {
            BeatError::Beat(NoBeat::Unknown) => refused(StatusCode::NOT_FOUND, Next::FixRequest),
            BeatError::Beat(NoBeat::Empty | NoBeat::TooMany) => refused(StatusCode::BAD_REQUEST, Next::FixRequest),
            BeatError::Beat(NoBeat::Full) => {
                refused(StatusCode::TOO_MANY_REQUESTS, Next::RetryLater).after(Millis::from_secs(60))
            }
            BeatError::Beat(NoBeat::Sealed) | BeatError::NotSealed => refused(StatusCode::CONFLICT, Next::FixRequest),
            BeatError::NoRoom(full) => full.into(),
            BeatError::Group(error) => error.into(),
            BeatError::Engine(error) => error.into(),
            other => crate::problem::store_down(other),
        }
    }
}

impl From<MemoError> for Problem {
    fn from(error: MemoError) -> Self {
        match error {
            MemoError::Declaration(error) => {
                let title = "The declaration cannot be used";
                Self::new(StatusCode::BAD_REQUEST, "HX0093", title, error.to_string(), Next::FixRequest)
            }
            MemoError::NoRoom(full) => full.into(),
            MemoError::Engine(error) => error.into(),
            other => crate::problem::store_down(other),
        }
    }
}

impl From<UnwindError> for Problem {
    fn from(error: UnwindError) -> Self {
        match error {
            UnwindError::Group(error) => error.into(),
            UnwindError::Engine(error) => error.into(),
            UnwindError::NoPlan { group } => {
                let detail = "the group has no plan; unwind it first";
                Self::new(StatusCode::CONFLICT, "HX0094", "There is no plan", detail, Next::FixRequest).about(group)
            }
            other => crate::problem::store_down(other),
        }
    }
}
