use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{begin::TicketAnswer, compensation::CompensationWire, group::TurnWire};

/// Claims a call that a run makes to a provider.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivityRequest {
    #[schemars(length(min = 1, max = 255))]
    pub run: String,
    #[schemars(length(min = 1, max = 255))]
    pub node: String,
    /// The how-manieth effect of the node.
    #[serde(default)]
    pub ordinal: u64,
    /// Stable over retries: `stripe:create-charge`.
    #[schemars(length(min = 1, max = 255))]
    pub provider: String,
    /// Knows the call by what it does for the business, wherever it is asked for; by its place if left out.
    #[schemars(length(min = 1, max = 255))]
    pub business_key: Option<String>,
    /// Knows the call by a recipe that others use, for systems that hold such ids already; not beside a business key.
    pub recipe: Option<RecipeWire>,
    /// The answer is a stream: its start and its end are recorded, and not its body. Say how it ended with `:end`.
    #[serde(default)]
    pub stream: bool,
    /// What is asked of the provider, as JSON: its fingerprint guards the call. It is not stored. Left out or `null`, this call is not
    /// guarded: it matches whatever was asked before.
    #[schemars(with = "Option<serde_json::Value>")]
    pub request: Option<Box<RawValue>>,
    /// What is known about doing it twice; `unsafe` if left out.
    #[schemars(extend("enum" = ["pure", "idempotent", "compensatable", "irreversible", "unsafe", null]))]
    pub effect: Option<String>,
    pub turn: Option<TurnWire>,
    pub compensation: Option<CompensationWire>,
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{32}$"))]
    pub nonce: Option<String>,
    #[schemars(range(min = 1, max = 86_400_000))]
    pub lease_ms: Option<u64>,
    #[schemars(range(min = 0, max = 60_000))]
    pub wait_ms: Option<u64>,
}

/// A recipe by its name, with exactly its fields.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecipeWire {
    /// `openwop.activity.v2`.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// `{"run": "r-1", "ordinal": 0}`: texts, numbers or lists of texts.
    pub fields: BTreeMap<String, FieldWire>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FieldWire {
    Number(u64),
    Text(String),
    List(Vec<String>),
}

/// Make the call, then say what the provider answered.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ActivityTicket {
    #[serde(flatten)]
    pub ticket: TicketAnswer,
    /// The key that the provider is to see: the same over all attempts, and no longer than it takes.
    pub key: String,
    /// The header to set to the key on the call that has the effect, and on no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Instead of a header: the member of the JSON body, by its pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// What a provider answered, as it is recorded and given again.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivityAnswer {
    #[schemars(range(min = 100, max = 599))]
    pub status: u16,
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub headers: Vec<(String, String)>,
    #[serde(default)]
    pub body: String,
}

/// The call was made before: a final refusal is an answer like any other.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ActivityReplay {
    pub operation: String,
    pub attempt: u32,
    /// It was still under way when this call came, which waited for it.
    pub joined: bool,
    pub answer: ActivityAnswer,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum ActivityVerdicts {
    Execute(ActivityTicket),
    Replay(ActivityReplay),
    /// The call that was waited for failed and may be made again.
    JoinedFailure(ActivityReplay),
    /// The stream was made and ended before; its body is not kept.
    Finished(StreamFinished),
    /// The stream ended before, and may be called again for its body: it does no harm, and nothing is recorded of it.
    Again(StreamAgain),
}

/// What is known of a stream that has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StreamFinished {
    pub operation: String,
    pub attempt: u32,
    pub status: u16,
    /// How many bytes it had; 0 where that is not kept any more.
    pub length: u64,
    /// SHA-256 of them, in hexadecimal.
    pub digest: String,
}

/// Call the provider once more, with the key that it saw.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StreamAgain {
    pub operation: String,
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// How a stream ended: all of it came, or it broke off. Say it before the last bytes are given on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamEndRequest {
    #[schemars(regex(pattern = r"^[1-9][0-9]{0,8}\.[0-9a-fA-F]{32}$"))]
    pub token: String,
    /// All of it came.
    pub whole: Option<StreamWhole>,
    /// It broke off, and why: what came of the call is unknown.
    #[schemars(length(min = 1, max = 1024))]
    pub broken: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamWhole {
    #[schemars(range(min = 100, max = 599))]
    pub status: u16,
    pub length: u64,
    /// SHA-256 of the body, in hexadecimal.
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{64}$"))]
    pub digest: String,
}

/// What the provider answered. Its status decides whether that is final.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    #[schemars(regex(pattern = r"^[1-9][0-9]{0,8}\.[0-9a-fA-F]{32}$"))]
    pub token: String,
    /// As it was claimed with: it may call more answers retryable than everybody does.
    #[schemars(length(min = 1, max = 255))]
    pub provider: String,
    pub answer: ActivityAnswer,
}

/// One effect of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EffectRow {
    pub operation: String,
    /// claimed: under way. completed: it has a final answer. released: it may be run again. escaped: nobody has its answer.
    pub state: String,
    pub effect: String,
    pub attempt: u32,
    /// Milliseconds since 1970.
    pub begun_at: u64,
}

/// The effects of a run, the oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunEffects {
    pub effects: Vec<EffectRow>,
}
