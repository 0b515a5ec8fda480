//! Every code in every dialect: the status, the word and the place of what is said beside it.

use hapax_core::{Id, Millis};
use hapax_http::{Code, Dialect, NextStep, Problem};
use serde_json::Value;

/// Status in `ietf`, then the exceptions of `stripe` and `openwop`.
fn status(code: Code, dialect: Dialect) -> u16 {
    match (code, dialect) {
        (Code::Mismatch | Code::WindowClosed, Dialect::Stripe) => 400,
        (Code::Mismatch, Dialect::Openwop1 | Dialect::Openwop2) => 409,
        (
            Code::KeyMissing
            | Code::KeyInvalid
            | Code::BrokenRequest
            | Code::HostRefused
            | Code::PathRefused
            | Code::HeadRefused,
            _,
        ) => 400,
        (Code::HeadTooLarge, _) => 431,
        (Code::NoCredential, _) => 401,
        (Code::NotAuthorized | Code::EgressRefused, _) => 403,
        (Code::TooSlow, _) => 408,
        (Code::InFlight | Code::InDoubt | Code::Fenced | Code::AlreadyCompleted, _) => 409,
        (Code::WindowClosed, _) => 410,
        (Code::TooLarge, _) => 413,
        (Code::Mismatch, _) => 422,
        (Code::OverQuota | Code::NotAdmitted, _) => 429,
        (Code::NoAnswer, _) => 500,
        (Code::UpgradeRefused, _) => 501,
        (Code::BadGateway, _) => 502,
        (Code::Unavailable, _) => 503,
        (Code::GatewayTimeout, _) => 504,
    }
}

/// The families of Stripe's own clients.
fn stripe_type(status: u16, code: Code) -> &'static str {
    match (status, code) {
        (_, Code::Mismatch | Code::WindowClosed) | (409, _) => "idempotency_error",
        (401, _) | (_, Code::NotAuthorized) => "authentication_error",
        (429, _) => "rate_limit_error",
        (500 | 502..=599, _) => "api_error",
        (_, _) => "invalid_request_error",
    }
}

fn openwop_word(code: Code, dialect: Dialect) -> &'static str {
    match (code, dialect) {
        (Code::KeyMissing, _) | (Code::KeyInvalid, Dialect::Openwop1) => "validation_error",
        (Code::KeyInvalid, _) => "idempotency_key_invalid",
        (Code::Mismatch, _) => "idempotency_key_mismatch",
        (Code::InFlight, _) => "idempotency_in_flight",
        (_, _) => code.name(),
    }
}

#[test]
fn every_code_is_said_in_every_dialect() {
    let names: std::collections::HashSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), Code::ALL.len(), "no two codes have one name");
    for code in Code::ALL {
        for dialect in Dialect::ALL {
            let at = format!("{} in {}", code.name(), dialect.name());
            let operation = Id::derived("test", &[b"1"]);
            let problem = Problem::new(code, NextStep::Wait, "what happened").about(operation);
            let answer = dialect.answer(&problem.retry_after(Millis(1_500)));
            let status = status(code, dialect);
            assert_eq!(answer.status().as_u16(), status, "{at}");
            assert_eq!(answer.headers()["cache-control"], "no-store", "{at}");
            let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            let body: Value = serde_json::from_slice(answer.body()).unwrap();
            let (kind, members, message) = match dialect {
                Dialect::Ietf => {
                    assert_eq!(body["type"], format!("urn:hapax:problem:{}", code.name()), "{at}");
                    assert_eq!(body["status"], status, "{at}");
                    assert!(body["title"].as_str().is_some_and(|title| !title.is_empty()), "{at}");
                    ("application/problem+json", body.clone(), body["detail"].clone())
                }
                Dialect::Stripe => {
                    assert_eq!(body["error"]["type"], stripe_type(status, code), "{at}");
                    ("application/json", body["error"].clone(), body["error"]["message"].clone())
                }
                Dialect::Openwop1 | Dialect::Openwop2 => {
                    assert_eq!(body["error"], openwop_word(code, dialect), "{at}");
                    assert_eq!(body.as_object().unwrap().len(), 3, "{at}");
                    ("application/json", body["details"].clone(), body["message"].clone())
                }
                Dialect::Acf => {
                    assert_eq!(body.as_object().unwrap().len(), 1, "{at}");
                    assert_eq!(header("hapax-code").as_deref(), Some(code.name()), "{at}");
                    assert_eq!(header("hapax-next-action").as_deref(), Some("wait"), "{at}");
                    assert_eq!(header("hapax-safe-new-key").as_deref(), Some("false"), "{at}");
                    assert_eq!(header("hapax-operation"), Some(operation.to_string()), "{at}");
                    ("application/json", Value::Null, body["detail"].clone())
                }
            };
            assert_eq!(header("content-type").as_deref(), Some(kind), "{at}");
            assert_eq!(message, "what happened", "{at}");
            if dialect != Dialect::Acf {
                assert_eq!(members["code"], code.name(), "{at}");
                assert_eq!(members["next_action"], "wait", "{at}");
                assert_eq!(members["safe_new_key"], false, "{at}");
                assert_eq!(members["operation"], operation.to_string(), "{at}");
                assert_eq!(members["retry_after_ms"].is_number(), dialect != Dialect::Openwop2, "{at}");
            }
            // In seconds, rounded up. `acf` keeps it for those who come again because there is no room.
            let busy = matches!(code, Code::OverQuota | Code::NotAdmitted | Code::Unavailable);
            let told = (dialect != Dialect::Acf || busy).then_some("2");
            assert_eq!(header("retry-after").as_deref(), told, "{at}");
        }
    }
}
