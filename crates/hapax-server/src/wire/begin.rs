use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{compensation::CompensationWire, group::TurnWire, outcome::OutcomeWire};

/// One labelled part that narrows the scope: the same key under another value is another operation.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScopePart {
    /// What kind of part this is, such as `endpoint`.
    #[schemars(length(min = 1, max = 64))]
    pub label: String,
    #[schemars(length(max = 256))]
    pub value: String,
}

/// The caller's epoch in its group, and the group's current one.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EpochPair {
    pub caller: u64,
    pub current: u64,
}

/// Asks for the right to run something once. Whose it is follows from the credential, never from this.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginRequest {
    /// The place where duplicates arrive; it decides the policy.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._:/-]+$"))]
    pub surface: String,
    /// Names the intent. The same key in the same scope is the same operation.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[\x21-\x7e]+$"))]
    pub key: String,
    /// In order; the tenant comes before them.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub scope: Vec<ScopePart>,
    /// 32 hexadecimal digits, fresh for every begin. Sent again after a lost answer it gives the same ticket. Without one
    /// the server draws it, and a lost answer locks the key until the lease is over.
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{32}$"))]
    pub nonce: Option<String>,
    /// What is asked under the key, as JSON: its fingerprint guards the key. It is not stored. Left out or `null`, and without a
    /// `fingerprint`, this call is not guarded: it matches whatever was asked under the key.
    #[schemars(with = "Option<serde_json::Value>")]
    pub request: Option<Box<RawValue>>,
    /// Instead of `request`: its SHA-256, 64 hexadecimal digits.
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{64}$"))]
    pub fingerprint: Option<String>,
    /// What is known about doing it twice; `unsafe` if left out.
    #[schemars(extend("enum" = ["pure", "idempotent", "compensatable", "irreversible", "unsafe", null]))]
    pub effect: Option<String>,
    /// How long the attempt may be silent; as the policy says if left out.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub lease_ms: Option<u64>,
    /// False: *start* comes before the effect. True if left out.
    pub started: Option<bool>,
    /// How long to wait for another's attempt; as the policy says if left out.
    #[schemars(range(min = 0, max = 60_000))]
    pub wait_ms: Option<u64>,
    pub epoch: Option<EpochPair>,
    /// Makes it a member of this turn: once a newer turn has begun it is not started any more.
    pub turn: Option<TurnWire>,
    /// What undoes it; it is then compensatable.
    pub compensation: Option<CompensationWire>,
}

/// Asks what is known about the operation behind a key. The key travels in the body, because addresses end up in logs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._:/-]+$"))]
    pub surface: String,
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[\x21-\x7e]+$"))]
    pub key: String,
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub scope: Vec<ScopePart>,
    /// Only for administrators, and there it is required.
    #[schemars(length(min = 1, max = 256))]
    pub tenant: Option<String>,
}

/// Run it, then say how it ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TicketAnswer {
    pub operation: String,
    /// What every later step shows.
    pub token: String,
    pub attempt: u32,
    pub lease_ms: u64,
    /// Grows with each attempt, for downstreams that refuse older ones.
    pub fence: u64,
    /// An idempotency key to forward: the same over all attempts.
    pub downstream_key: String,
}

/// It was decided before.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplayAnswer {
    pub operation: String,
    pub attempt: u32,
    /// It failed for good, and that is the answer.
    pub rejected: bool,
    /// It was still running when this call came, which waited for it.
    pub joined: bool,
    /// Milliseconds since 1970.
    pub decided_at: u64,
    pub outcome: OutcomeWire,
}

/// The attempt that was waited for failed and may be tried again with the same key. This is no recorded answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JoinedFailure {
    pub operation: String,
    pub outcome: OutcomeWire,
}

/// The verdicts that are no errors. All others come as problems.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdicts {
    Execute(TicketAnswer),
    Replay(ReplayAnswer),
    JoinedFailure(JoinedFailure),
}
