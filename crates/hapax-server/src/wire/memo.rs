use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a computation was made of. Whose it is follows from the credential.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputWire {
    pub agent: String,
    pub session: String,
    pub channel: String,
    /// What was said, normalised, in order.
    pub messages: Vec<String>,
}

/// The versions of what gives inputs their meaning.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DependenciesWire {
    pub scenario_set: String,
    pub rules: String,
    pub knowledge_base: String,
    pub agent_config: String,
    pub tool_registry: String,
}

/// Asks whether what was computed for this input may be used again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LookUpRequest {
    /// What may be reused and when, by phase: `{"parsing": {"scope": "same_input"}}`.
    #[schemars(with = "serde_json::Value")]
    pub reuse_decl: Box<RawValue>,
    #[schemars(length(min = 1, max = 255))]
    pub phase: String,
    pub input: InputWire,
    pub dependencies: DependenciesWire,
}

/// Keeps a computation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeepRequest {
    #[schemars(with = "serde_json::Value")]
    pub reuse_decl: Box<RawValue>,
    #[schemars(length(min = 1, max = 255))]
    pub phase: String,
    pub input: InputWire,
    pub dependencies: DependenciesWire,
    /// The computation, as JSON.
    #[schemars(with = "serde_json::Value")]
    pub value: Box<RawValue>,
    /// The operation that made it, if one did: results of tools are kept only with it.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub producer: Option<String>,
}

/// The answer to a look-up, always with its reason.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoWire {
    /// reuse, revalidate or recompute.
    pub answer: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub value: Option<Box<RawValue>>,
}

/// Whether it was kept: a phase that is never reused is not.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeptWire {
    pub kept: bool,
}
