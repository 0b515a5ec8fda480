use schemars::JsonSchema;
use serde::Serialize;

/// Why it was not done, after RFC 9457.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProblemWire {
    /// The page of the error's code.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// Never changes its meaning: `HX0004`, for instance.
    pub code: String,
    pub detail: String,
    /// What may be done now: `retry_same_key`, `retry_later`, `new_key`, `ask_operator`, `fix_request`, `stop`,
    /// `authenticate`.
    pub next_action: String,
    /// The verdict behind it, where *begin* gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Whether the same intent may safely be sent under a new key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_key_is_safe: Option<bool>,
    /// Where the version moved: what it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
