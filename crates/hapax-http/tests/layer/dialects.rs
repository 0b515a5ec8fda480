//! Every row of the dialect table, for every dialect, over a socket.

use std::{sync::Arc, time::Duration};

use hapax_core::{
    Effect, Millis, Outcome, Span,
    command::{Resolution, Resolve},
    policy::{Admission, AfterWindow, Capacity, OnFull, OnInFlight},
};
use hapax_http::{Dialect, Limits, Operation, Streamed};
use hapax_store::Fault;
use serde_json::{Value, json};

use crate::support::{App, Held, Reply, answer, keyed, policy, post, rules};

/// What the problem is expected to say, in all dialects.
struct Said {
    code: &'static str,
    next: &'static str,
    safe: bool,
    timed: bool,
    operation: bool,
}

/// Looks at the shape of an error body and finds our members where this dialect keeps them.
fn check(dialect: Dialect, reply: &Reply, status: u16, word: &str, said: &Said) {
    let at = format!("{}: {} {:?}", dialect.name(), said.code, reply);
    assert_eq!(reply.code(), status, "{at}");
    assert!(!reply.is_replay(), "{at}");
    assert_eq!(reply.header("cache-control"), Some("no-store"), "{at}");
    let body = reply.json();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let members = match dialect {
        Dialect::Ietf => {
            assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{at}");
            assert_eq!(body["type"], format!("urn:hapax:problem:{}", said.code), "{at}");
            assert_eq!(body["status"], status, "{at}");
            assert!(body["title"].is_string() && body["detail"].is_string(), "{at}");
            body
        }
        Dialect::Stripe => {
            assert_eq!(names(&body), ["error"], "{at}");
            assert_eq!(body["error"]["type"], word, "{at}");
            assert!(body["error"]["message"].is_string(), "{at}");
            body["error"].clone()
        }
        Dialect::Openwop1 | Dialect::Openwop2 => {
            assert_eq!(names(&body), ["details", "error", "message"], "{at}");
            assert_eq!(body["error"], word, "{at}");
            body["details"].clone()
        }
        Dialect::Acf => {
            assert_eq!(names(&body), ["detail"], "{at}");
            let header = |name: &str| reply.header(name).map_or(Value::Null, Value::from);
            let safe = reply.header("hapax-safe-new-key").map(|text| text == "true");
            json!({
                "code": header("hapax-code"),
                "next_action": header("hapax-next-action"),
                "safe_new_key": safe,
                "operation": header("hapax-operation"),
            })
        }
    };
    assert_eq!(members["code"], said.code, "{at}");
    assert_eq!(members["next_action"], said.next, "{at}");
    assert_eq!(members["safe_new_key"], said.safe, "{at}");
    assert_eq!(members["operation"].is_string(), said.operation, "{at}");
    let timing = match dialect {
        Dialect::Ietf | Dialect::Stripe | Dialect::Openwop1 => said.timed,
        Dialect::Openwop2 | Dialect::Acf => false,
    };
    assert_eq!(members["retry_after_ms"].is_number(), timing, "{at}");
    let header = reply.header("retry-after").is_some();
    let busy = matches!(said.code, "over_quota" | "not_admitted" | "unavailable");
    assert_eq!(header, said.timed && (dialect != Dialect::Acf || busy), "{at}");
}

/// One value per dialect, in the order of [`Dialect::ALL`].
fn pick<T: Copy>(dialect: Dialect, values: [T; 5]) -> T {
    let at = Dialect::ALL.iter().position(|known| *known == dialect).unwrap();
    values[at]
}

const KEY: &str = "key-0123456789-abcdefghij";
const IDEMPOTENCY: &str = "idempotency_error";

#[tokio::test]
async fn a_required_key_that_is_missing() {
    for dialect in Dialect::ALL {
        let rules = if dialect == Dialect::Acf { rules() } else { rules().require_key() };
        let app = App::serve(policy(|_| {}), rules.dialect(dialect), |_| async { answer(200, "done") }).await;
        let reply = app.send(post("/orders"), "{\"a\":1}").await;
        if dialect == Dialect::Acf {
            // An automatic key: the same request again is the same intent, however it is spelled.
            assert_eq!((reply.code(), reply.is_replay()), (200, false));
            assert!(app.send(post("/orders"), "{ \"a\": 1 }").await.is_replay());
            assert!(!app.send(post("/orders"), "{\"a\":2}").await.is_replay());
            assert_eq!(app.calls(), 2);
            continue;
        }
        let word = pick(dialect, ["", "invalid_request_error", "validation_error", "validation_error", ""]);
        let said = Said { code: "key_missing", next: "fix_request", safe: true, timed: false, operation: false };
        check(dialect, &reply, 400, word, &said);
        assert_eq!(app.calls(), 0);
    }
}

#[tokio::test]
async fn a_key_that_is_malformed() {
    for dialect in Dialect::ALL {
        let app = App::serve(policy(|_| {}), rules().dialect(dialect), |_| async { answer(200, "done") }).await;
        let word = pick(dialect, ["", "invalid_request_error", "validation_error", "idempotency_key_invalid", ""]);
        let said = Said { code: "key_invalid", next: "use_new_key", safe: true, timed: false, operation: false };
        for key in ["two words", "\"unclosed", "  ", "\"a\";b=1", &"x".repeat(256)] {
            let reply = app.send(keyed(key), "{}").await;
            check(dialect, &reply, 400, word, &said);
        }
        assert_eq!(app.calls(), 0);
    }
}

/// Two keys in one request: which of them ran, if one did, is not for us to say.
#[tokio::test]
async fn keys_that_disagree() {
    for dialect in Dialect::ALL {
        let rules = rules().dialect(dialect);
        let app = App::serve(policy(|_| {}), rules, |_| async { answer(201, "done") }).await;
        assert_eq!(app.post(KEY, "{}").await.code(), 201);
        let reply = app.send(keyed(KEY).header("idempotency-key", "another-0123456789-abcdefg"), "{}").await;
        let word = pick(dialect, ["", "invalid_request_error", "validation_error", "idempotency_key_invalid", ""]);
        let said = Said { code: "key_invalid", next: "fix_request", safe: false, timed: false, operation: false };
        check(dialect, &reply, 400, word, &said);
        assert_eq!(app.calls(), 1);
    }
}

#[tokio::test]
async fn the_same_key_for_another_request() {
    for dialect in Dialect::ALL {
        let app = App::serve(policy(|_| {}), rules().dialect(dialect), |_| async { answer(201, "done") }).await;
        assert_eq!(app.post(KEY, "{\"a\":1}").await.code(), 201);
        let reply = app.post(KEY, "{\"a\":2}").await;
        let status = pick(dialect, [422, 400, 409, 409, 422]);
        let word = pick(dialect, ["", IDEMPOTENCY, "idempotency_key_mismatch", "idempotency_key_mismatch", ""]);
        let said = Said { code: "mismatch", next: "fix_request", safe: false, timed: false, operation: true };
        check(dialect, &reply, status, word, &said);
        assert_eq!(app.calls(), 1);
    }
}

#[tokio::test]
async fn in_flight_when_the_wait_is_over_and_another_request_meanwhile() {
    for dialect in Dialect::ALL {
        let held = Held::new();
        let handler = held.clone();
        let policy = policy(|policy| policy.on_in_flight = OnInFlight::Wait { most: Millis(20) });
        let app = App::serve(policy, rules().dialect(dialect), move |_| {
            let held = handler.clone();
            async move {
                held.wait().await;
                answer(201, "done")
            }
        })
        .await;
        let first = app.send(keyed(KEY), "{\"a\":1}");
        let others = async {
            held.entered().await;
            let same = app.post(KEY, "{\"a\":1}").await;
            let other = app.post(KEY, "{\"a\":2}").await;
            held.let_go();
            (same, other)
        };
        let (first, (same, other)) = tokio::join!(first, others);
        assert_eq!(first.code(), 201);
        let word = pick(dialect, ["", IDEMPOTENCY, "idempotency_in_flight", "idempotency_in_flight", ""]);
        let in_flight = Said { code: "in_flight", next: "wait", safe: false, timed: true, operation: true };
        check(dialect, &same, 409, word, &in_flight);
        let details = same.json()["details"]["retryAfter"].clone();
        match dialect {
            Dialect::Openwop1 => {
                assert_eq!(details.as_u64().unwrap().to_string(), same.header("retry-after").unwrap());
                // Version 1 does not tell another request apart while the first runs.
                check(dialect, &other, 409, word, &in_flight);
            }
            Dialect::Ietf | Dialect::Stripe | Dialect::Openwop2 | Dialect::Acf => {
                assert!(details.is_null());
                let status = pick(dialect, [422, 400, 0, 409, 422]);
                let word = pick(dialect, ["", IDEMPOTENCY, "", "idempotency_key_mismatch", ""]);
                let said = Said { code: "mismatch", next: "fix_request", safe: false, timed: false, operation: true };
                check(dialect, &other, status, word, &said);
            }
        }
        assert_eq!(app.calls(), 1);
    }
}

#[tokio::test]
async fn an_outcome_that_nobody_knows() {
    for dialect in Dialect::ALL {
        let app = App::serve(policy(|_| {}), rules().dialect(dialect), |_| async { answer(504, "gone") }).await;
        assert_eq!(app.post(KEY, "{}").await.code(), 504);
        let reply = app.post(KEY, "{}").await;
        let said = Said { code: "in_doubt", next: "ask_operator", safe: false, timed: false, operation: true };
        check(dialect, &reply, 409, pick(dialect, ["", IDEMPOTENCY, "in_doubt", "in_doubt", ""]), &said);
        assert_eq!(app.calls(), 1);
    }
}

/// While the handler runs, an operator decides. What the handler then says is refused, and its caller is told so.
#[tokio::test]
async fn somebody_else_decided() {
    for dialect in Dialect::ALL {
        let held = Held::new();
        let (handler, ids) = (held.clone(), Arc::new(parking_lot::Mutex::new(None)));
        let seen = Arc::clone(&ids);
        let app = App::serve(policy(|_| {}), rules().dialect(dialect), move |request| {
            *seen.lock() = request.extensions().get::<Operation>().map(|operation| operation.0.id());
            let held = handler.clone();
            async move {
                held.wait().await;
                answer(201, "done")
            }
        })
        .await;
        let operator = async {
            held.entered().await;
            let id = ids.lock().unwrap();
            let resolve = Resolve {
                version: app.engine.version(&id).await.unwrap(),
                resolution: Resolution::Committed(Outcome::success("by hand")),
                actor: "ops".into(),
                reason: "looked it up".into(),
            };
            assert!(app.engine.resolve(&id, resolve).await.unwrap().is_done());
            held.let_go();
        };
        let (reply, ()) = tokio::join!(app.send(keyed(KEY), "{}"), operator);
        let said = Said { code: "fenced", next: "retry_same_key", safe: false, timed: false, operation: true };
        check(dialect, &reply, 409, pick(dialect, ["", IDEMPOTENCY, "fenced", "fenced", ""]), &said);
        let again = app.post(KEY, "{}").await;
        assert_eq!((again.code(), &again.body[..], again.is_replay()), (200, &b"by hand"[..], true));
    }
}

#[tokio::test]
async fn completed_without_a_body_to_give() {
    for dialect in Dialect::ALL {
        let app = App::serve(policy(|_| {}), rules().dialect(dialect), |_| async {
            let mut given = answer(201, "streamed");
            given.extensions_mut().insert(Streamed);
            given.headers_mut().insert("location", "/orders/7".parse().unwrap());
            given
        })
        .await;
        assert_eq!(&app.post(KEY, "{}").await.body[..], b"streamed");
        let reply = app.post(KEY, "{}").await;
        let said = Said { code: "already_completed", next: "ask_operator", safe: false, timed: false, operation: true };
        check(
            dialect,
            &reply,
            409,
            pick(dialect, ["", IDEMPOTENCY, "already_completed", "already_completed", ""]),
            &said,
        );
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        if dialect == Dialect::Acf {
            let header = |name| reply.header(name).unwrap_or_default();
            assert_eq!((header("hapax-length"), header("hapax-location")), ("8", "/orders/7"));
            assert!(header("hapax-digest").starts_with("sha256:"), "{}", header("hapax-digest"));
        } else {
            assert!(text.contains("\"length\":8") && text.contains("sha256:") && text.contains("/orders/7"), "{text}");
        }
        assert_eq!(app.calls(), 1);
    }
}

#[tokio::test]
async fn a_retry_that_comes_too_late() {
    for dialect in Dialect::ALL {
        let policy = policy(|policy| {
            policy.success = Span::For(Millis::from_hours(1));
            policy.after_window = Some(AfterWindow::Refuse);
        });
        let app = App::serve(policy, rules().dialect(dialect), |_| async { answer(201, "done") }).await;
        assert_eq!(app.post(KEY, "{}").await.code(), 201);
        app.clock.advance(Millis::from_hours(2));
        let reply = app.post(KEY, "{}").await;
        let said = Said { code: "window_closed", next: "ask_operator", safe: false, timed: false, operation: true };
        let status = pick(dialect, [410, 400, 410, 410, 410]);
        check(dialect, &reply, status, pick(dialect, ["", IDEMPOTENCY, "window_closed", "window_closed", ""]), &said);
        assert_eq!(app.calls(), 1);
    }
}

#[tokio::test]
async fn a_body_that_is_too_large() {
    for dialect in Dialect::ALL {
        let rules = rules().dialect(dialect).limits(Limits { request_body: 10, ..Limits::default() });
        let app = App::serve(policy(|_| {}), rules, |_| async { answer(201, "done") }).await;
        let reply = app.post(KEY, "{\"a\": 12345678}").await;
        // A shorter one under the same key may have run: nothing is looked up for a body that nobody reads.
        let said = Said { code: "too_large", next: "fix_request", safe: false, timed: false, operation: false };
        let word = pick(dialect, ["", "invalid_request_error", "too_large", "too_large", ""]);
        check(dialect, &reply, 413, word, &said);
        assert_eq!(reply.header("connection"), Some("close"));
        assert_eq!(app.calls(), 0);
    }
}

#[tokio::test]
async fn no_room_for_another_record() {
    for dialect in Dialect::ALL {
        let policy = policy(|policy| policy.capacity = Capacity::of(1, OnFull::RejectNew));
        let app = App::serve(policy, rules().dialect(dialect), |_| async { answer(201, "done") }).await;
        assert_eq!(app.post(KEY, "{}").await.code(), 201);
        let reply = app.post("another-0123456789-abcdefg", "{}").await;
        let said = Said { code: "over_quota", next: "retry_same_key", safe: true, timed: true, operation: true };
        let word = pick(dialect, ["", "rate_limit_error", "over_quota", "over_quota", ""]);
        check(dialect, &reply, 429, word, &said);
        assert_eq!(app.calls(), 1);
    }
}

#[tokio::test]
async fn no_room_for_more_bytes() {
    for dialect in Dialect::ALL {
        let policy = policy(|policy| policy.capacity.bytes_per_tenant = Some(500));
        let app = App::serve(policy, rules().dialect(dialect), |_| async { answer(201, "d".repeat(600)) }).await;
        assert_eq!(app.post(KEY, "{}").await.code(), 201);
        let reply = app.post("another-0123456789-abcdefg", "{}").await;
        let said = Said { code: "over_quota", next: "retry_same_key", safe: false, timed: true, operation: true };
        let word = pick(dialect, ["", "rate_limit_error", "over_quota", "over_quota", ""]);
        check(dialect, &reply, 429, word, &said);
        assert!(app.post(KEY, "{}").await.code() == 201, "what was done is answered");
        assert_eq!(app.calls(), 1);
    }
}

/// A 429 of our own must not poison the key: the same request, sent again, runs.
#[tokio::test]
async fn not_admitted_now_and_free_afterwards() {
    for dialect in Dialect::ALL {
        let held = Held::new();
        let handler = held.clone();
        let policy = policy(|policy| policy.admission = Some(Admission { max_in_flight: 1, per_tenant: 1 }));
        let app = App::serve(policy, rules().dialect(dialect), move |_| {
            let held = handler.clone();
            async move {
                held.wait().await;
                answer(201, "done")
            }
        })
        .await;
        let other = "another-0123456789-abcdefg";
        let refused = async {
            held.entered().await;
            let refused = app.post(other, "{\"first\":true}").await;
            held.let_go();
            refused
        };
        let (_, reply) = tokio::join!(app.send(keyed(KEY), "{}"), refused);
        let said = Said { code: "not_admitted", next: "retry_same_key", safe: false, timed: true, operation: true };
        let word = pick(dialect, ["", "rate_limit_error", "not_admitted", "not_admitted", ""]);
        check(dialect, &reply, 429, word, &said);
        // Not even its fingerprint is left: another request may use the key.
        held.let_go();
        assert_eq!(app.post(other, "{\"second\":true}").await.code(), 201);
        assert_eq!(app.calls(), 2);
    }
}

#[tokio::test]
async fn a_store_that_is_gone() {
    for dialect in Dialect::ALL {
        let app = App::serve(policy(|_| {}), rules().dialect(dialect), |_| async { answer(201, "done") }).await;
        app.store.script(Fault::Stale(1_000));
        let reply = app.post(KEY, "{}").await;
        let said = Said { code: "unavailable", next: "retry_same_key", safe: false, timed: true, operation: true };
        check(dialect, &reply, 503, pick(dialect, ["", "api_error", "unavailable", "unavailable", ""]), &said);
        assert_eq!(app.calls(), 0);
        app.store.calm();
        assert_eq!(app.post(KEY, "{}").await.code(), 201);
    }
}

#[tokio::test]
async fn the_replay_marker_and_when_it_expires() {
    for dialect in Dialect::ALL {
        let app = App::serve(policy(|_| {}), rules().dialect(dialect), |_| async { answer(201, "done") }).await;
        let first = app.post(KEY, "{}").await;
        assert!(!first.is_replay() && first.header("idempotency-expires").is_none());
        let again = app.post(KEY, "{}").await;
        let marker = pick(
            dialect,
            [
                "idempotent-replayed",
                "idempotent-replayed",
                "openwop-idempotent-replay",
                "openwop-idempotent-replay",
                "idempotent-replayed",
            ],
        );
        assert_eq!(again.header(marker), Some("true"));
        assert_eq!((again.code(), &again.body), (201, &first.body));
        assert_eq!(again.header("content-type"), first.header("content-type"));
        let expires = httpdate::parse_http_date(again.header("idempotency-expires").unwrap()).unwrap();
        #[allow(clippy::disallowed_methods, reason = "the header is about real time")]
        let ahead = expires.duration_since(std::time::SystemTime::now()).unwrap();
        assert!(ahead > Duration::from_secs(86_300) && ahead <= Duration::from_secs(86_400), "{ahead:?}");
    }
    let forever = policy(|policy| policy.success = Span::Forever);
    let app = App::serve(forever, rules().effect(Effect::Pure), |_| async { answer(201, "done") }).await;
    app.post(KEY, "{}").await;
    let again = app.post(KEY, "{}").await;
    assert!(again.is_replay() && again.header("idempotency-expires").is_none());
}
