use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::group::TurnWire;

/// These messages arrived together, in any order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatherRequest {
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[\x21-\x7e]+$"))]
    pub session: String,
    /// Their ids.
    #[schemars(length(min = 1, max = 256))]
    pub messages: Vec<String>,
}

/// More messages belong to an open beat.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AbsorbBeatRequest {
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[\x21-\x7e]+$"))]
    pub session: String,
    pub beat: u64,
    #[schemars(length(min = 1, max = 256))]
    pub messages: Vec<String>,
    /// The turn that the beat is answered in: past its commit point nothing is absorbed.
    pub turn: Option<TurnWire>,
}

/// The beat is complete.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SealRequest {
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[\x21-\x7e]+$"))]
    pub session: String,
    pub beat: u64,
}

/// Asks for the right to answer a sealed beat, once, whichever of its messages is delivered again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeatBeginRequest {
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[\x21-\x7e]+$"))]
    pub session: String,
    pub beat: u64,
    #[schemars(extend("enum" = ["pure", "idempotent", "compensatable", "irreversible", "unsafe", null]))]
    pub effect: Option<String>,
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{32}$"))]
    pub nonce: Option<String>,
    #[schemars(range(min = 1, max = 86_400_000))]
    pub lease_ms: Option<u64>,
    #[schemars(range(min = 0, max = 60_000))]
    pub wait_ms: Option<u64>,
    pub turn: Option<TurnWire>,
}

/// One beat of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BeatWire {
    pub beat: u64,
    /// Nothing is absorbed any more.
    pub sealed: bool,
    /// How many messages it has.
    pub size: usize,
}

/// A message, and the beat that it belongs to.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundMessage {
    pub message: String,
    pub beat: u64,
}

/// What is known of messages that arrived together.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "gathered", rename_all = "snake_case")]
pub enum GatheredWire {
    /// None was known: a new beat.
    New(BeatWire),
    /// All belong to this beat: delivered again.
    Known(BeatWire),
    /// Some belong to beats; the others are still unanswered.
    Overlap { found: Vec<FoundMessage>, beats: Vec<BeatWire>, unanswered: Vec<String> },
}

/// The beat as it is now, and the messages that another one has already.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AbsorbedWire {
    #[serde(flatten)]
    pub beat: BeatWire,
    pub elsewhere: Vec<FoundMessage>,
}
