use schemars::JsonSchema;
use serde::Serialize;

/// One operation in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OperationRow {
    pub operation: String,
    pub surface: String,
    /// Only where administrators look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub key_hash: String,
    pub state: String,
    pub effect: String,
    pub attempt: u32,
    pub owner: String,
    /// When the latest attempt began, in milliseconds since 1970.
    pub begun_at: u64,
    /// To name in a resolution.
    pub version: u64,
    /// Until the lease or the retention ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    /// What may be done now, in words.
    pub next: String,
}

/// A page may hold fewer than asked for, even none, and still have a next one: each looks at a bounded number of records.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OperationPage {
    pub items: Vec<OperationRow>,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
