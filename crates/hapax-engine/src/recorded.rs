//! From a value to what is recorded of it, and back.

use std::fmt;

use hapax_core::{Body, Outcome, OutcomeClass, Policy, Recorded, policy::Keep};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    begin::Replayed,
    call::Prepared,
    classify::{Classify, Failure},
    error::OnceError,
    once::OnceDone,
};

/// Turns a recorded answer back into a value.
pub(crate) fn given_again<T: DeserializeOwned, E>(replayed: Replayed) -> Result<OnceDone<T>, OnceError<E>> {
    let Replayed { replay, joined } = replayed;
    let outcome = match replay.answer {
        Recorded::Whole(outcome) => outcome,
        Recorded::DigestOnly { digest, .. } => {
            return Err(OnceError::AlreadyCompleted { digest, reason: "its body was evicted to make room".into() });
        }
    };
    if replay.rejected {
        return Err(OnceError::Rejected { message: message_of(&outcome), attempt: replay.attempt, joined });
    }
    let read = match &outcome.body {
        // The reader's own words would show what is recorded.
        Body::Inline(bytes) => serde_json::from_slice(bytes).map_err(|error| unreadable(&error)),
        // Only that it was done is recorded: enough for a value that says nothing.
        Body::Empty => serde_json::from_slice(b"null").map_err(|_| "only that it was done is recorded".to_owned()),
        Body::Handle(handle) => {
            serde_json::from_value(serde_json::Value::String(handle.to_string())).map_err(|error| unreadable(&error))
        }
        Body::Uncaptured { length: 0, digest: UNWRITTEN } => Err("it could not be written as JSON".to_owned()),
        Body::Uncaptured { length, .. } | Body::Stored { length, .. } => {
            Err(format!("its {length} bytes were too many to keep"))
        }
    };
    match read {
        Ok(value) => Ok(OnceDone { value, replayed: true, joined, attempt: replay.attempt, unrecorded: false }),
        Err(reason) => Err(OnceError::AlreadyCompleted { digest: outcome.digest(), reason }),
    }
}

/// Stands for a value that could not be written. No body has this digest.
const UNWRITTEN: [u8; 32] = [0; 32];

fn unreadable(error: &serde_json::Error) -> String {
    format!("it cannot be read as the type that is asked for, from column {} on", error.column())
}

/// A value as it is recorded. One that cannot be written still is recorded as done.
pub(crate) fn recorded_value<T: Serialize>(prepared: &Prepared, value: &T) -> Outcome {
    done_as(&prepared.policy, value)
}

pub(crate) fn done_as<T: Serialize>(policy: &Policy, value: &T) -> Outcome {
    let body = match policy.capture.keep {
        Keep::Marker => Body::Empty,
        Keep::Handle | Keep::Whole => match serde_json::to_vec(value) {
            Ok(bytes) => handle_in(policy.capture.keep, &bytes).unwrap_or(Body::Inline(bytes.into())),
            Err(_) => Body::Uncaptured { length: 0, digest: UNWRITTEN },
        },
    };
    Outcome::new(OutcomeClass::Success, body)
}

/// Where only a handle is kept, a value that is a string is one.
fn handle_in(keep: Keep, bytes: &[u8]) -> Option<Body> {
    match keep {
        Keep::Handle => serde_json::from_slice::<String>(bytes).ok().map(|handle| Body::Handle(handle.into())),
        Keep::Whole | Keep::Marker => None,
    }
}

pub(crate) fn recorded_failure<E: Classify + fmt::Display>(error: &E) -> Outcome {
    let class = match error.classify() {
        Failure::Final => OutcomeClass::FinalFailure,
        Failure::Retryable => OutcomeClass::RetryableFailure,
        Failure::NoEffect => OutcomeClass::NotRecordable,
        Failure::Unknown => OutcomeClass::Unknown,
    };
    Outcome::new(class, Body::Inline(error.to_string().into()))
}

pub(crate) fn message_of(outcome: &Outcome) -> String {
    match &outcome.body {
        Body::Inline(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Body::Handle(handle) => handle.to_string(),
        Body::Empty | Body::Stored { .. } | Body::Uncaptured { .. } => String::new(),
    }
}
