//! Where keys come from. A key that is overlooked is a request without protection; one that is misread is another's.

use hapax_core::{
    Policy, Preset,
    identity::{KeySource, Pointer, Template},
    policy::{GrammarName, KeyRules},
};
use hapax_http::Dialect;
use http::Request;

use crate::support::{App, answer, keyed, policy, post, rules};

async fn app(policy: Policy, dialect: Dialect) -> App {
    App::serve(policy, rules().dialect(dialect), |_| async { answer(201, "done") }).await
}

#[tokio::test]
async fn both_spellings_of_a_key_are_one_key() {
    let app = app(policy(|_| {}), Dialect::Ietf).await;
    assert!(!app.post("k-1", "{}").await.is_replay());
    assert!(app.post("\"k-1\"", "{}").await.is_replay());
    assert!(app.post("  k-1 ", "{}").await.is_replay());
    let twice = keyed("k-1").header("idempotency-key", "\"k-1\"");
    assert!(app.send(twice, "{}").await.is_replay());
    let differing = keyed("k-1").header("idempotency-key", "k-2");
    assert_eq!(app.send(differing, "{}").await.code(), 400);
    assert_eq!(app.calls(), 1);
}

#[tokio::test]
async fn without_a_key_nothing_is_protected_unless_it_is_required() {
    let app = app(policy(|_| {}), Dialect::Ietf).await;
    for _ in 0..2 {
        let reply = app.send(post("/orders"), "{}").await;
        assert_eq!((reply.code(), reply.is_replay()), (201, false));
    }
    assert_eq!(app.calls(), 2);
}

/// Proxies and clients spell the header in several ways; a run must not be created twice because of it.
#[tokio::test]
async fn a_run_is_found_by_any_of_its_four_places_and_refused_when_they_differ() {
    let app = app(Preset::Run.policy(), Dialect::Ietf).await;
    let started = app.send(keyed("run-1"), "{}").await;
    assert_eq!((started.code(), started.is_replay()), (201, false));
    let places = [
        post("/orders").header("x-idempotency-key", " run-1 "),
        post("/orders?idempotency_key=run-1"),
        post("/orders?idempotency-key=run%2D1"),
        keyed("run-1").header("x-idempotency-key", "run-1"),
    ];
    for place in places {
        let again = app.send(place, "{}").await;
        assert!(again.is_replay(), "{again:?}");
        assert_eq!(again.body, started.body, "the handle of the first run");
    }
    let differing = app.send(keyed("run-1").header("x-idempotency-key", "run-2"), "{}").await;
    assert_eq!((differing.code(), differing.json()["code"].as_str()), (400, Some("key_invalid")));
    let differing = app
        .send(Request::post("/orders?idempotency_key=a&idempotency-key=b").header("authorization", "acme"), "")
        .await;
    assert_eq!(differing.code(), 400);
    assert_eq!(app.calls(), 1);
}

/// The key inside the body is the key and not the payload: it is left out of the fingerprint.
#[tokio::test]
async fn acf_reads_the_key_in_the_body() {
    let app = app(Preset::Api.policy(), Dialect::Acf).await;
    assert_eq!(app.send(post("/chat"), r#"{"message":"hi","idempotency_key":"m-1"}"#).await.code(), 201);
    assert!(app.send(post("/chat"), r#"{"idempotency_key":"\"m-1\"","message":"hi"}"#).await.is_replay());
    assert!(app.send(post("/chat").header("idempotency-key", "m-1"), r#"{"message":"hi"}"#).await.is_replay());
    let other = app.send(post("/chat"), r#"{"message":"ho","idempotency_key":"m-1"}"#).await;
    assert_eq!((other.code(), other.header("hapax-code")), (422, Some("mismatch")));
    let both = post("/chat").header("idempotency-key", "m-2");
    assert_eq!(app.send(both, r#"{"message":"hi","idempotency_key":"m-1"}"#).await.code(), 400);
    assert_eq!(app.send(post("/chat"), r#"{"message":"hi","idempotency_key":7}"#).await.code(), 400);
    assert_eq!(app.calls(), 1);
}

/// A business key: a field that is missing is an error, never an empty text that all orders share.
#[tokio::test]
async fn a_template_makes_the_key_out_of_the_body() {
    let template = Template::parse("refund:{order.id}").unwrap();
    let policy = policy(|policy| policy.key.source = Some(vec![KeySource::Template(template)]));
    let app = app(policy, Dialect::Ietf).await;
    assert_eq!(app.send(post("/refunds"), r#"{"order":{"id":7},"note":"a"}"#).await.code(), 201);
    assert!(app.send(post("/refunds"), r#"{"note":"a","order":{"id":7.0}}"#).await.is_replay());
    assert_eq!(app.send(post("/refunds"), r#"{"order":{"id":8}}"#).await.code(), 201);
    for body in [r#"{"order":{}}"#, r#"{"order":{"id":""}}"#, "no json", ""] {
        let reply = app.send(post("/refunds"), body).await;
        assert_eq!((reply.code(), reply.json()["code"].as_str()), (400, Some("key_invalid")), "{body}");
    }
    assert_eq!(app.calls(), 2);
}

/// Two order numbers that are one and the same to a double name two orders: the second is not refused as the first's retry.
#[tokio::test]
async fn a_template_keeps_every_digit_of_a_long_number() {
    let template = Template::parse("refund:{order}").unwrap();
    let policy = policy(|policy| policy.key.source = Some(vec![KeySource::Template(template)]));
    let app = app(policy, Dialect::Ietf).await;
    for order in ["123456789012345678901", "123456789012345678902", "1234567890123456789.1", "1234567890123456789.2"] {
        assert_eq!(app.send(post("/refunds"), format!(r#"{{"order":{order}}}"#)).await.code(), 201, "{order}");
        assert!(app.send(post("/refunds"), format!(r#"{{"order": {order} }}"#)).await.is_replay(), "{order}");
    }
    assert_eq!(app.calls(), 4);
}

/// The route's word, then the policy's, then the dialect's.
#[tokio::test]
async fn a_policy_overrides_the_dialect_and_a_route_the_policy() {
    let short = policy(|policy| policy.key.grammar = Some(GrammarName::Visible));
    assert_eq!(app(policy(|_| {}), Dialect::Openwop2).await.post("short", "{}").await.code(), 400);
    assert_eq!(app(short.clone(), Dialect::Openwop2).await.post("short", "{}").await.code(), 201);
    let bounded = policy(|policy| policy.key.max_len = Some(4));
    assert_eq!(app(bounded, Dialect::Ietf).await.post("short", "{}").await.code(), 400);
    let source = vec![KeySource::Header("X-Request-Id".to_owned())];
    let route = KeyRules { source: Some(source), required: Some(true), ..KeyRules::default() };
    let app = App::serve(short, rules().key(route), |_| async { answer(201, "done") }).await;
    assert_eq!(app.post("short", "{}").await.code(), 400, "this route does not look at Idempotency-Key");
    assert_eq!(app.send(post("/orders").header("x-request-id", "r-1"), "{}").await.code(), 201);
    assert!(app.send(post("/orders").header("x-request-id", "r-1"), "{}").await.is_replay());
}

/// What a policy's pointers leave out does not make two requests of one.
#[tokio::test]
async fn the_fingerprint_looks_at_what_the_policy_selects() {
    let ignoring = policy(|policy| policy.fingerprint.ignore = vec!["/trace".into()]);
    let app = app(ignoring, Dialect::Ietf).await;
    assert_eq!(app.post("k", r#"{"a":1,"trace":"x"}"#).await.code(), 201);
    assert!(app.post("k", r#"{"trace":"y","a":1}"#).await.is_replay());
    assert_eq!(app.post("k", r#"{"a":2,"trace":"x"}"#).await.code(), 422);
    let _pointer = Pointer::parse("/trace").unwrap();
}

/// Method, endpoint, path parameters, query and content type are part of the request as well as its body.
#[tokio::test]
async fn another_method_path_query_or_content_type_is_another_request() {
    let app = app(policy(|_| {}), Dialect::Ietf).await;
    let on = |path: &str| post(path).header("idempotency-key", "k");
    assert_eq!(app.send(on("/accounts/1/orders"), "{}").await.code(), 201);
    assert!(app.send(on("/accounts/1/orders"), "{}").await.is_replay());
    assert_eq!(app.send(on("/accounts/2/orders"), "{}").await.code(), 422, "one route, another account");
    assert_eq!(app.send(on("/accounts/1/orders?dry=1"), "{}").await.code(), 422);
    let plain =
        Request::post("/accounts/1/orders").header("authorization", "acme").header("content-type", "text/plain");
    assert_eq!(app.send(plain.header("idempotency-key", "k"), "{}").await.code(), 422);
    // Another endpoint, or another method, has keys of its own.
    assert_eq!(app.send(on("/elsewhere"), "{}").await.code(), 201);
    let put = Request::put("/elsewhere").header("authorization", "acme").header("idempotency-key", "k");
    assert_eq!(app.send(put, "{}").await.code(), 201);
    assert_eq!(app.calls(), 3);
}

/// Stripe's keys belong to the account, not to the endpoint: elsewhere the same key is a mistake.
#[tokio::test]
async fn under_stripe_a_key_is_the_tenants() {
    let app = app(Preset::Stripe.policy(), Dialect::Stripe).await;
    assert_eq!(app.send(post("/v1/charges").header("idempotency-key", "k"), "{}").await.code(), 201);
    let elsewhere = app.send(post("/v1/refunds").header("idempotency-key", "k"), "{}").await;
    assert_eq!((elsewhere.code(), elsewhere.json()["error"]["type"].as_str()), (400, Some("idempotency_error")));
    assert_eq!(app.calls(), 1);
}

/// A path of any length is an endpoint.
#[tokio::test]
async fn a_long_path_is_no_reason_to_refuse() {
    let app = app(policy(|_| {}), Dialect::Ietf).await;
    let (one, two) = (format!("/{}1", "p".repeat(900)), format!("/{}2", "p".repeat(900)));
    assert_eq!(app.send(post(&one).header("idempotency-key", "k"), "{}").await.code(), 201);
    assert_eq!(app.send(post(&two).header("idempotency-key", "k"), "{}").await.code(), 201);
    assert!(app.send(post(&one).header("idempotency-key", "k"), "{}").await.is_replay());
}
