use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::outcome::OutcomeWire;

/// Submits a job under the key that its client gave it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// `client:sequence:nonce`, read from the right: a client id may hold colons.
    #[schemars(length(min = 20, max = 255), regex(pattern = r"^[\x21-\x7e]+:(0|[1-9][0-9]{0,18}):[0-9a-f]{16}$"))]
    pub key: String,
    /// The job itself, as JSON: its fingerprint guards the key. It is not stored.
    #[schemars(with = "serde_json::Value")]
    pub job: Box<RawValue>,
    /// What is known about accepting it twice; `unsafe` if left out.
    #[schemars(extend("enum" = ["pure", "idempotent", "compensatable", "irreversible", "unsafe", null]))]
    pub effect: Option<String>,
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{32}$"))]
    pub nonce: Option<String>,
    #[schemars(range(min = 1, max = 86_400_000))]
    pub lease_ms: Option<u64>,
    #[schemars(range(min = 0, max = 60_000))]
    pub wait_ms: Option<u64>,
}

/// How a submission ended.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    /// It was accepted.
    Committed,
    /// It was refused for good.
    Rejected,
}

/// What became of a submission; given again to whoever submits it again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobReport {
    #[schemars(regex(pattern = r"^[1-9][0-9]{0,8}\.[0-9a-fA-F]{32}$"))]
    pub token: String,
    pub ended: JobEnd,
    #[serde(default)]
    pub outcome: OutcomeWire,
}

/// A job as it stands. Its answer is for whoever submits it again under its key.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobWire {
    pub operation: String,
    /// `pending`, `committed`, `rejected`, `open` (it may be tried again), `in_doubt` or `tombstone`.
    pub state: String,
    pub attempt: u32,
    /// When the latest attempt began, in milliseconds since 1970.
    pub begun_at: u64,
    /// Until the lease or the retention ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    /// Without its body and headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeWire>,
}
