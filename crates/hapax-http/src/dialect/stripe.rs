use serde_json::{Value, json};

use super::Shape;
use crate::problem::{Code, Problem};

/// One `error` object, with everything inside it.
pub(super) fn shape(problem: &Problem) -> Shape {
    let mut error = problem.members(true);
    let mut set = |name: &str, value: &str| error.insert(name.to_owned(), Value::from(value));
    set("type", kind(problem.code));
    set("message", &problem.detail);
    let mut shape = Shape::json(problem, json!({ "error": error }));
    shape.status = match problem.code {
        Code::Mismatch | Code::WindowClosed => 400,
        Code::KeyMissing
        | Code::KeyInvalid
        | Code::InFlight
        | Code::InDoubt
        | Code::Fenced
        | Code::AlreadyCompleted
        | Code::TooLarge
        | Code::OverQuota
        | Code::NotAdmitted
        | Code::Unavailable
        | Code::NoCredential
        | Code::NotAuthorized
        | Code::BrokenRequest
        | Code::NoAnswer
        | Code::BadGateway
        | Code::GatewayTimeout
        | Code::TooSlow
        | Code::EgressRefused
        | Code::UpgradeRefused
        | Code::HostRefused
        | Code::PathRefused
        | Code::HeadRefused
        | Code::HeadTooLarge => problem.code.status(),
    };
    shape
}

/// The families by which Stripe's own clients tell errors apart.
const fn kind(code: Code) -> &'static str {
    match code {
        Code::Mismatch
        | Code::InFlight
        | Code::InDoubt
        | Code::Fenced
        | Code::AlreadyCompleted
        | Code::WindowClosed => "idempotency_error",
        Code::KeyMissing
        | Code::KeyInvalid
        | Code::TooLarge
        | Code::BrokenRequest
        | Code::TooSlow
        | Code::EgressRefused
        | Code::UpgradeRefused
        | Code::HostRefused
        | Code::PathRefused
        | Code::HeadRefused
        | Code::HeadTooLarge => "invalid_request_error",
        Code::NoCredential | Code::NotAuthorized => "authentication_error",
        Code::OverQuota | Code::NotAdmitted => "rate_limit_error",
        Code::Unavailable | Code::NoAnswer | Code::BadGateway | Code::GatewayTimeout => "api_error",
    }
}
