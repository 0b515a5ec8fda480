use serde::{Deserialize, Serialize};

/// The end of an attempt, as it is recorded and replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    #[serde(default)]
    pub status: u16,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// In answers only: what is left of a body that is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

impl Outcome {
    /// A text as the answer.
    #[must_use]
    pub fn text(body: impl Into<String>) -> Self {
        Self { body: Some(body.into()), ..Self::default() }
    }
}

/// The right to run one attempt.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Ticket {
    pub operation: String,
    pub token: String,
    pub attempt: u32,
    pub lease_ms: u64,
    pub fence: u64,
    /// Stable over attempts; forward it to the provider.
    pub downstream_key: String,
}

/// A recorded answer.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Replay {
    pub operation: String,
    pub attempt: u32,
    pub rejected: bool,
    pub joined: bool,
    pub decided_at: u64,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct JoinedFailure {
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub(crate) enum Verdict {
    Execute(Ticket),
    Replay(Replay),
    JoinedFailure(JoinedFailure),
}

/// It is as the caller said.
#[derive(Clone, Copy, Debug, Deserialize)]
#[non_exhaustive]
pub struct Stepped {
    pub already: bool,
    pub late: bool,
}
