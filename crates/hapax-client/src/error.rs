use serde::{Deserialize, Serialize};

/// Why the daemon did not do it: its own words. Written as JSON it is the document that the daemon sent.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Refusal {
    /// Where the code is explained.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub status: u16,
    /// Never changes its meaning: `HX0004`, for instance.
    pub code: String,
    pub detail: String,
    pub next_action: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Whether the same intent may safely be sent under a new key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_key_is_safe: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("`{0}` is not an address; write `http://host:port`, `https://host:port` or `unix:/path/to/admin.sock`")]
    Address(String),
    #[error("`{0}` wants TLS, and this client was built without the feature `tls`; build it with, or write `http://`")]
    NoTls(String),
    #[error("nobody can be trusted: {0} [HX0051]")]
    Trust(String),
    #[error("no daemon can be reached at {at}: {error}; is `hapax serve` running there?")]
    Unreachable {
        at: String,
        #[source]
        error: std::io::Error,
    },
    /// The request may have arrived: send the same again, with the same nonce or token.
    #[error("the connection broke before the answer came: {0}")]
    Lost(#[source] hyper::Error),
    #[error("no answer came within {0:?}")]
    TimedOut(std::time::Duration),
    #[error("the daemon answered something else than expected: {0}")]
    Unexpected(String),
    #[error("another caller is at it; try again with the same key [HX0004]")]
    InFlight(Box<Refusal>),
    #[error("this key was used for another request; use a new key, or send the request as it was [HX0005]")]
    Mismatch(Box<Refusal>),
    #[error("whether it happened is unknown; a new key is not safe, ask an operator [HX0006]")]
    InDoubt(Box<Refusal>),
    #[error("{} [{}]", .0.detail, .0.code)]
    Refused(Box<Refusal>),
}

impl Error {
    pub(crate) fn of(refusal: Refusal) -> Self {
        let refusal = Box::new(refusal);
        match refusal.code.as_str() {
            "HX0004" => Self::InFlight(refusal),
            "HX0005" => Self::Mismatch(refusal),
            "HX0006" => Self::InDoubt(refusal),
            _ => Self::Refused(refusal),
        }
    }

    /// Whether the same request may simply be sent again.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost(_) | Self::TimedOut(_) => true,
            Self::Refused(refusal) => refusal.status == 503,
            Self::Address(_)
            | Self::NoTls(_)
            | Self::Trust(_)
            | Self::Unexpected(_)
            | Self::InFlight(_)
            | Self::Mismatch(_)
            | Self::InDoubt(_) => false,
        }
    }
}

/// Why `once` has no value to give.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The closure ran here and failed with this. Whether it had an effect is unknown unless it was told otherwise.
    #[error("{0}")]
    Failed(E),
    /// It failed for good before, and that answer stands.
    #[error("it failed before and would again [HX0003]")]
    Rejected(crate::Replay),
    /// The attempt that was waited for failed; the same key may be tried again.
    #[error("the attempt under way failed; try again with the same key")]
    JoinedFailure(crate::Outcome),
    #[error("the recorded answer cannot be read as this type: {0} [HX0014]")]
    Unreadable(String),
    /// It ran, but its outcome was not taken.
    #[error("the effect ran, but its outcome was not recorded: {0}; do not run it again under a new key [HX0015]")]
    NotRecorded(#[source] Error),
    #[error(transparent)]
    Client(#[from] Error),
}
