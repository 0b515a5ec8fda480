use hapax_engine::ToolDeclaration;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::group::TurnWire;

/// Asks for the right to run a tool. Its declaration says which arguments name the call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolRequest {
    /// `{"name": "refund", "business_key": "order:{args.order}", "narrative": ["/why"], "effect": "irreversible"}`.
    #[schemars(with = "serde_json::Value")]
    pub declaration: ToolDeclaration,
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub args: Box<RawValue>,
    /// The same action in the same conversation attempt happens once; without a turn, once for the tenant.
    pub turn: Option<TurnWire>,
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{32}$"))]
    pub nonce: Option<String>,
    #[schemars(range(min = 1, max = 86_400_000))]
    pub lease_ms: Option<u64>,
    #[schemars(range(min = 0, max = 60_000))]
    pub wait_ms: Option<u64>,
}
