use hapax_core::{
    identity::{KeySource, Pointer},
    policy::KeyRules,
};
use http::{HeaderName, HeaderValue};
use serde_json::json;

use super::{Shape, is_busy};
use crate::problem::Problem;

/// A key of the caller's, or one made from the request: no request goes without.
pub(super) fn key_rules() -> KeyRules {
    let mut source = vec![KeySource::Header("Idempotency-Key".to_owned())];
    source.extend(Pointer::parse("/idempotency_key").map(KeySource::JsonPointer));
    source.push(KeySource::Automatic);
    KeyRules { source: Some(source), ..KeyRules::default() }
}

/// The body is `detail` alone; everything else is in headers.
pub(super) fn shape(problem: &Problem) -> Shape {
    let mut headers = vec![
        (HeaderName::from_static("hapax-code"), HeaderValue::from_static(problem.code.name())),
        (HeaderName::from_static("hapax-next-action"), HeaderValue::from_static(problem.next.name())),
        (
            HeaderName::from_static("hapax-safe-new-key"),
            HeaderValue::from_static(if problem.safe_new_key { "true" } else { "false" }),
        ),
    ];
    let operation = problem.operation.and_then(|id| HeaderValue::try_from(id.to_string()).ok());
    headers.extend(operation.map(|operation| (HeaderName::from_static("hapax-operation"), operation)));
    // What else there is to say, such as the digest of an answer whose body was not kept.
    for (name, value) in &problem.extra {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = HeaderName::try_from(format!("hapax-{}", name.replace('_', "-")));
        headers.extend(name.ok().zip(HeaderValue::try_from(text).ok()));
    }
    Shape { headers, retry_header: is_busy(problem.code), ..Shape::json(problem, json!({ "detail": problem.detail })) }
}
