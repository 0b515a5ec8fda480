use schemars::JsonSchema;
use serde::Serialize;

use super::{event::EventWire, outcome::OutcomeWire};

/// One attempt, ended or not.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AttemptWire {
    pub number: u32,
    pub owner: String,
    /// Milliseconds since 1970.
    pub begun_at: u64,
    /// How long its lease is from its last renewal on, or was when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How much of that is left; only while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_left_ms: Option<u64>,
    pub end: String,
}

/// An outcome that came too late to count.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EvidenceWire {
    pub attempt: u32,
    pub at: u64,
    pub outcome: OutcomeWire,
}

/// Who resolved a doubt, and why.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResolvedWire {
    pub actor: String,
    pub reason: String,
    pub at: u64,
}

/// Everything that is known about one operation. Bodies are not shown.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExplanationWire {
    pub operation: String,
    pub state: String,
    pub surface: String,
    /// Only where administrators look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub key_hash: String,
    /// Where keys on this surface come from.
    pub key_from: String,
    /// How the id came about.
    pub derived: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    pub effect: String,
    /// To name in a resolution.
    pub version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    pub policy: String,
    pub policy_revision: String,
    /// Whether the policy in force now is the one that it was begun under.
    pub policy_is_current: bool,
    /// Oldest first; the last is the latest.
    pub attempts: Vec<AttemptWire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeWire>,
    pub evidence: Vec<EvidenceWire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedWire>,
    /// What is forwarded downstream as idempotency key.
    pub downstream_key: String,
    /// What this process remembers of it, oldest first.
    pub recent: Vec<EventWire>,
    /// How often this process has given the recorded answer again from memory; such replays are not among `recent`.
    pub given_from_memory: u16,
    /// What happened, in sentences.
    pub story: Vec<String>,
    /// What may be done now: `runs_again`, `wait`, `replays`, `resolve` or `too_late`.
    pub advice: String,
    /// The same in words.
    pub next: String,
}
