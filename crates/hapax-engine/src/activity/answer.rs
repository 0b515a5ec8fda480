//! What a provider answered, and what came of an activity.

use std::fmt;

use bytes::Bytes;
use hapax_core::{Body, Effect, Outcome, OutcomeClass, activity::answer_class};
use serde::{Deserialize, Serialize};

use crate::{
    classify::{Classify, Failure},
    error::{EngineError, OnceError},
};

/// A provider's answer, as it is recorded and given again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub status: u16,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    body: Stored,
}

/// Text stays readable; anything else is kept byte by byte.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Text(String),
    Bytes(Vec<u8>),
}

/// Never kept: they belong to one client or one connection.
const DROPPED: [&str; 7] =
    ["set-cookie", "connection", "keep-alive", "transfer-encoding", "trailer", "upgrade", "proxy-authenticate"];

impl Answered {
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = String::from_utf8(body.into());
        let body = body.map_or_else(|error| Stored::Bytes(error.into_bytes()), Stored::Text);
        Self { status, headers: Vec::new(), body }
    }

    /// Keeps a header with the answer.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if !DROPPED.iter().any(|dropped| dropped.eq_ignore_ascii_case(name)) {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// As it is recorded, whoever made the call.
    pub fn outcome(&self, class: OutcomeClass) -> Result<Outcome, serde_json::Error> {
        Ok(Outcome::new(class, Body::Inline(serde_json::to_vec(self)?.into())))
    }

    /// As it was recorded; `None` where something else was, by an operator for instance.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Option<Self> {
        // As the gateway records it.
        if outcome.status != 0 {
            let body = match &outcome.body {
                Body::Inline(bytes) => bytes.to_vec(),
                Body::Empty => Vec::new(),
                Body::Stored { .. } | Body::Uncaptured { .. } | Body::Handle(_) => return None,
            };
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let headers = outcome.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
            return Some(Self { headers, ..Self::new(outcome.status, body) });
        }
        match &outcome.body {
            Body::Inline(bytes) => serde_json::from_slice(bytes).ok(),
            Body::Empty | Body::Stored { .. } | Body::Uncaptured { .. } | Body::Handle(_) => None,
        }
    }

    /// What the provider said, out of an answer as it was recorded; `None` where something else was.
    pub(crate) fn body_in(recorded: &[u8]) -> Option<Bytes> {
        let answered: Self = serde_json::from_slice(recorded).ok()?;
        Some(Bytes::copy_from_slice(answered.body()))
    }

    #[must_use]
    pub fn body(&self) -> &[u8] {
        match &self.body {
            Stored::Text(text) => text.as_bytes(),
            Stored::Bytes(bytes) => bytes,
        }
    }

    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.body())
    }
}

impl fmt::Debug for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answered({}, {} bytes)", self.status, self.body().len())
    }
}

/// Why a provider gave no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing reached the provider: it may be tried again as if nothing had been.
    #[error("the call was not sent: {0}")]
    NotSent(String),
    /// It was sent, at least in part, and nobody knows what came of it.
    #[error("the call was sent and not answered: {0}")]
    Lost(String),
}

/// What an activity came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Performed {
    /// Also a final refusal is an answer: a declined card is recorded and given again.
    pub answer: Answered,
    pub replayed: bool,
    /// The call was still under way when this one came.
    pub joined: bool,
    pub attempt: u32,
}

/// Why an activity has no final answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActivityError {
    #[error("the provider answered {}; try again with the same identity", .0.status)]
    Retryable(Answered),
    #[error("the provider answered {}, and whether it happened is unknown [HX0006]", .0.status)]
    Unknown(Answered),
    #[error(transparent)]
    NoAnswer(NoAnswer),
    /// Everything else that can come between a call and its effect.
    #[error(transparent)]
    Stopped(Box<OnceError<std::convert::Infallible>>),
}

impl From<EngineError> for ActivityError {
    fn from(error: EngineError) -> Self {
        Self::Stopped(Box::new(error.into()))
    }
}

/// How the call inside `once` failed: an answer that is no success, or none at all. Its text is what is recorded.
#[derive(Debug)]
pub(super) enum Failed {
    Answer { answer: Answered, class: OutcomeClass, attempt: u32 },
    None(NoAnswer),
}

impl Failed {
    /// The answer as a success, or as whatever its status makes it.
    pub(super) fn judge(answer: Answered, effect: Effect, retryable: &[u16], attempt: u32) -> Result<Answered, Self> {
        match answer_class(answer.status, effect, retryable) {
            OutcomeClass::Success => Ok(answer),
            class @ (OutcomeClass::FinalFailure
            | OutcomeClass::RetryableFailure
            | OutcomeClass::NotRecordable
            | OutcomeClass::NotAdmitted
            | OutcomeClass::Cancelled
            | OutcomeClass::Unknown) => Err(Self::Answer { answer, class, attempt }),
        }
    }
}

impl Classify for Failed {
    fn classify(&self) -> Failure {
        match self {
            Self::Answer { class, .. } => match class {
                OutcomeClass::FinalFailure => Failure::Final,
                OutcomeClass::RetryableFailure => Failure::Retryable,
                OutcomeClass::NotRecordable => Failure::NoEffect,
                // It had started by the time that there was an answer.
                OutcomeClass::Success | OutcomeClass::NotAdmitted | OutcomeClass::Cancelled | OutcomeClass::Unknown => {
                    Failure::Unknown
                }
            },
            Self::None(NoAnswer::NotSent(_)) => Failure::NoEffect,
            Self::None(NoAnswer::Lost(_)) => Failure::Unknown,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { answer, .. } => f.write_str(&serde_json::to_string(answer).map_err(|_| fmt::Error)?),
            Self::None(none) => none.fmt(f),
        }
    }
}
