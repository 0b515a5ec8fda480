use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::outcome::OutcomeWire;

/// The owner of an attempt shows its token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// As given by *begin*.
    #[schemars(regex(pattern = r"^[1-9][0-9]{0,8}\.[0-9a-fA-F]{32}$"))]
    pub token: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    #[schemars(regex(pattern = r"^[1-9][0-9]{0,8}\.[0-9a-fA-F]{32}$"))]
    pub token: String,
    /// From now on; the lease that was begun with if left out.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub lease_ms: Option<u64>,
}

/// How an attempt ended: its answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishRequest {
    #[schemars(regex(pattern = r"^[1-9][0-9]{0,8}\.[0-9a-fA-F]{32}$"))]
    pub token: String,
    #[serde(default)]
    pub outcome: OutcomeWire,
}

/// The attempt failed. With the class `unknown`: nobody can say whether it did.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    #[schemars(regex(pattern = r"^[1-9][0-9]{0,8}\.[0-9a-fA-F]{32}$"))]
    pub token: String,
    #[serde(default)]
    pub outcome: OutcomeWire,
}

/// Why an attempt is given back.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseWhy {
    /// The effect was not started.
    #[default]
    BeforeStart,
    /// The owner's word that nothing happened, although it had started.
    NoEffect,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    #[schemars(regex(pattern = r"^[1-9][0-9]{0,8}\.[0-9a-fA-F]{32}$"))]
    pub token: String,
    #[serde(default)]
    pub why: ReleaseWhy,
}

/// What a doubt is decided to have been.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolutionWire {
    /// It happened.
    Committed,
    /// It failed for good.
    Rejected,
    /// Run it again.
    Open,
}

/// Why it is safe to run it again.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PostureWire {
    /// A second run does no harm.
    Idempotent,
    /// A person takes it upon themselves.
    OperatorAccepted,
    /// The effect was made impossible downstream before this was said.
    Prevented,
    /// The attempt can no longer act.
    OwnerGone,
}

/// Decides what nobody else can.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// As shown by *explain*: whoever decided on an older state is told that it has moved.
    pub version: u64,
    pub resolution: ResolutionWire,
    /// The answer that later callers get; with `committed` and `rejected`.
    #[serde(default)]
    pub outcome: Option<OutcomeWire>,
    /// Required with `open`.
    pub posture: Option<PostureWire>,
    /// Why; it stands in the record and in the audit log.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// It is as the caller said.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StepAnswer {
    /// Nothing had to be done: it was so already.
    pub already: bool,
    /// It came after the lapse and was taken all the same.
    pub late: bool,
}
