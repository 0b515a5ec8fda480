use schemars::JsonSchema;
use serde::Serialize;

/// One transition, or one answer worth seeing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EventWire {
    /// Grows by one with each event of this process. Only where administrators look: it counts everybody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Milliseconds since 1970.
    pub at: u64,
    pub operation: String,
    pub surface: String,
    /// Only where administrators look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// A short keyed hash of the key.
    pub key_hash: String,
    pub cause: String,
    pub from: String,
    pub to: String,
    pub attempt: u32,
    pub late: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}
