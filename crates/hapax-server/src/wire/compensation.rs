use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::begin::TicketAnswer;

/// What undoes an effect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompensationWire {
    /// What the inverse is called.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// What it needs, as JSON.
    #[schemars(with = "Option<serde_json::Value>")]
    pub input: Option<Box<RawValue>>,
    /// Instead of `input`: where it stands in the outcome, as a JSON pointer; empty for all of it.
    #[schemars(length(max = 255))]
    pub from_outcome: Option<String>,
}

/// Undoes what a group has done: marks it, waits for what is under way, writes the plan down.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnwindRequest {
    /// How long members that are under way are waited for; not at all if left out.
    #[schemars(range(min = 0, max = 60_000))]
    pub wait_ms: Option<u64>,
}

/// Claims the next inverse. How the ones before it ended is read from their operations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NextRequest {
    /// What the caller knows how to do, with the class of doing it: `{"cancel": "idempotent"}`.
    pub inverses: HashMap<String, String>,
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{32}$"))]
    pub nonce: String,
    #[schemars(range(min = 1, max = 86_400_000))]
    pub lease_ms: Option<u64>,
}

/// A person has undone this effect by other means.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeenToRequest {
    pub ordinal: u64,
    /// How; it stands in the plan and in the audit log.
    #[schemars(length(min = 1, max = 1024))]
    pub note: String,
}

/// A person has found that this inverse may be tried again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    pub ordinal: u64,
    /// Why; it stands in the audit log.
    #[schemars(length(min = 1, max = 1024))]
    pub note: String,
}

/// One inverse of a plan.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StepWire {
    pub ordinal: u64,
    pub name: String,
    /// The effect that it undoes.
    pub operation: String,
    /// pending, done, failed, manual or seen_to.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A member whose end is open: nothing is undone before it is settled.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UnsettledWire {
    pub operation: String,
    pub progress: String,
}

/// How the undoing of a group stands.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlanWire {
    pub group: String,
    /// not_yet, none, pending, running, completed, partial, failed or manual.
    pub state: String,
    /// Nothing is left to do.
    pub over: bool,
    /// The last start first.
    pub steps: Vec<StepWire>,
    /// Effects that took place and declared nothing that undoes them.
    pub without: u32,
    pub unsettled: Vec<UnsettledWire>,
}

/// An inverse to run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InverseWire {
    #[serde(flatten)]
    pub ticket: TicketAnswer,
    pub ordinal: u64,
    pub name: String,
    /// What its effect said it needs.
    #[schemars(with = "serde_json::Value")]
    pub input: Box<RawValue>,
    /// The effect that it undoes.
    pub undoes: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "next", rename_all = "snake_case")]
pub enum NextWire {
    /// Run it, say how its operation ended, and ask again.
    Run(InverseWire),
    /// Another process is at it: ask again after this.
    Later { retry_after_ms: u64 },
    /// Nothing is to be run now: it is over, or a person has to look.
    Nothing(PlanWire),
}
