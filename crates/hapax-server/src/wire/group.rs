use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One epoch of a group: what calls are made in.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnWire {
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub group: String,
    pub epoch: u64,
}

/// Makes a group, or finds it. The name travels in the body, because addresses end up in logs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupRequest {
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[\x21-\x7e]+$"))]
    pub name: String,
}

/// A group of its own for the message that comes next.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// What the new group is called.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[\x21-\x7e]+$"))]
    pub name: String,
}

/// Begins a newer turn.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SupersedeRequest {
    /// 32 hexadecimal digits, fresh for every supersede. Sent again after a lost answer the epoch is raised once.
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{32}$"))]
    pub nonce: Option<String>,
}

/// One more message for the turn of this epoch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AbsorbRequest {
    pub epoch: u64,
}

/// Nothing more is to be said.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NothingRequest {}

/// It is so.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoneWire {
    pub done: bool,
}

/// A member of an older turn that may have started. It is not stopped.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReportedWire {
    pub operation: String,
    pub effect: String,
    /// The epoch it was started in.
    pub epoch: u64,
    /// How far it had come: gone, waiting, running, open, in_doubt, committed or rejected.
    pub progress: String,
}

/// A newer turn, and what the older ones had started. Whatever is not in the list was refused before its effect, or will be.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SupersededWire {
    pub group: String,
    pub epoch: u64,
    /// The same supersede had been said before.
    pub already: bool,
    pub started: Vec<ReportedWire>,
}

/// Whether something would be allowed, and if not, why.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MayWire {
    pub allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// From here on no supersede and no absorb.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommitPointWire {
    /// The irreversible effect that started; absent where somebody said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Milliseconds since 1970.
    pub at: u64,
}

/// A start of a compensatable or irreversible effect.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StartWire {
    pub operation: String,
    pub attempt: u32,
    pub epoch: u64,
    pub effect: String,
    /// The order of starts, which undoing turns round.
    pub ordinal: u64,
}

/// A group as it stands.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GroupWire {
    pub group: String,
    pub epoch: u64,
    /// open, closing or closed.
    pub phase: String,
    pub unwinding: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed: Option<CommitPointWire>,
    pub may_supersede: MayWire,
    /// The group that this one was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How many messages were absorbed into its turns.
    pub absorbed: u64,
    pub starts: Vec<StartWire>,
    /// Milliseconds since 1970.
    pub created_at: u64,
}
