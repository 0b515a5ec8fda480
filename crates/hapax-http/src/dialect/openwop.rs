use hapax_core::policy::{GrammarName, KeyRules};
use serde_json::json;

use super::{Shape, ietf};
use crate::problem::{Code, Problem, seconds};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// Version 2 demands keys that cannot be guessed.
pub(super) fn key_rules() -> KeyRules {
    KeyRules { grammar: Some(GrammarName::Openwop2), ..ietf::key_rules() }
}

/// `error`, `message` and `details`, and nothing else.
pub(super) fn shape(problem: &Problem, version: Version) -> Shape {
    let mut details = problem.members(version == Version::V1);
    if let (Code::InFlight, Version::V1, Some(retry_after)) = (problem.code, version, problem.retry_after) {
        details.insert("retryAfter".to_owned(), seconds(retry_after).into());
    }
    let body = json!({ "error": word(problem.code, version), "message": problem.detail, "details": details });
    let mut shape = Shape::json(problem, body);
    if problem.code == Code::Mismatch {
        shape.status = 409;
    }
    shape
}

/// OpenWOP's own words where it has some, ours where it has none.
const fn word(code: Code, version: Version) -> &'static str {
    match (code, version) {
        (Code::KeyMissing, _) | (Code::KeyInvalid, Version::V1) => "validation_error",
        (Code::KeyInvalid, Version::V2) => "idempotency_key_invalid",
        (Code::Mismatch, _) => "idempotency_key_mismatch",
        (Code::InFlight, _) => "idempotency_in_flight",
        (
            Code::InDoubt
            | Code::Fenced
            | Code::AlreadyCompleted
            | Code::WindowClosed
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
            | Code::HeadTooLarge,
            _,
        ) => code.name(),
    }
}
