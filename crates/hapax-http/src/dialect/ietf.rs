use hapax_core::{identity::KeySource, policy::KeyRules};
use serde_json::Value;

use super::Shape;
use crate::problem::Problem;

pub(super) fn key_rules() -> KeyRules {
    KeyRules { source: Some(vec![KeySource::Header("Idempotency-Key".to_owned())]), ..KeyRules::default() }
}

/// Problem details. The type is a name and not an address (docs/adr/0011-problem-types-are-names.md).
pub(super) fn shape(problem: &Problem) -> Shape {
    let mut body = problem.members(true);
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("type", format!("urn:hapax:problem:{}", problem.code.name()).into());
    set("title", problem.code.title().into());
    set("status", problem.code.status().into());
    set("detail", problem.detail.as_ref().into());
    Shape { content_type: "application/problem+json", ..Shape::json(problem, body.into()) }
}
