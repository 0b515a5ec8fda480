//! Tenants are strangers, and an answer goes to whoever may see it.

use hapax_core::policy::OnInFlight;
use hapax_http::{May, Replaying};
use http::Request;
use http_body_util::BodyExt;

use crate::support::{App, Held, answer, keyed, policy, rules};

fn of(tenant: &str, key: &str) -> http::request::Builder {
    Request::post("/orders").header("authorization", tenant).header("idempotency-key", key)
}

/// H1: two customers with one key must never share an answer.
#[tokio::test]
async fn h1_two_customers_one_key_two_answers() {
    let app = App::serve(policy(|_| {}), rules(), |request| async move {
        let tenant = request.headers()["authorization"].to_str().unwrap().to_owned();
        answer(201, format!("order of {tenant}"))
    })
    .await;
    for _ in 0..2 {
        for tenant in ["alice", "bob"] {
            let reply = app.send(of(tenant, "k"), "{}").await;
            assert_eq!(String::from_utf8_lossy(&reply.body), format!("order of {tenant}"));
        }
    }
    assert_eq!(app.calls(), 2);
    // Another body under one tenant's key says nothing to the other.
    assert_eq!(app.send(of("carol", "k"), "{\"other\":1}").await.code(), 201);
}

#[tokio::test]
async fn one_tenants_running_request_does_not_block_another() {
    let held = Held::new();
    let handler = held.clone();
    let policy = policy(|policy| policy.on_in_flight = OnInFlight::Reject);
    let app = App::serve(policy, rules(), move |request| {
        let held = handler.clone();
        async move {
            if request.headers()["authorization"] == "alice" {
                held.wait().await;
            }
            answer(201, "done")
        }
    })
    .await;
    let bob = async {
        held.entered().await;
        let bob = app.send(of("bob", "k"), "{}").await;
        let alice = app.send(of("alice", "k"), "{}").await;
        held.let_go();
        (bob, alice)
    };
    let (_, (bob, alice)) = tokio::join!(app.send(of("alice", "k"), "{}"), bob);
    assert_eq!((bob.code(), alice.code()), (201, 409));
}

#[tokio::test]
async fn without_a_credential_nothing_runs() {
    let app = App::serve(policy(|_| {}), rules(), |_| async { answer(201, "done") }).await;
    let reply = app.send(Request::post("/orders").header("idempotency-key", "k"), "{}").await;
    assert_eq!((reply.code(), reply.json()["code"].as_str()), (401, Some("no_credential")));
    assert_eq!(app.calls(), 0);
}

#[tokio::test]
async fn an_answer_goes_to_the_principal_that_asked_first() {
    let app = App::serve(policy(|_| {}), rules(), |_| async { answer(201, "secret of ann") }).await;
    let by = |principal: &str| keyed("k").header("x-principal", principal);
    assert_eq!(app.send(by("ann"), "{}").await.code(), 201);
    assert!(app.send(by("ann"), "{}").await.is_replay());
    let refused = app.send(by("ben"), "{}").await;
    assert_eq!((refused.code(), refused.json()["code"].as_str()), (403, Some("not_authorized")));
    assert!(!String::from_utf8_lossy(&refused.body).contains("secret of ann"));
    assert_eq!(app.calls(), 1);
}

/// Within a tenant nobody in particular is somebody too: whoever comes without a name gets no answer that was asked for
/// under one, and the other way round.
#[tokio::test]
async fn whoever_has_no_name_sees_nobodys_answer() {
    let app = App::serve(policy(|_| {}), rules(), |_| async { answer(201, "secret") }).await;
    let named = |key: &str| keyed(key).header("x-principal", "ann");
    assert_eq!(app.send(named("k1"), "{}").await.code(), 201);
    assert_eq!(app.send(keyed("k2"), "{}").await.code(), 201);
    for _ in 0..2 {
        for (first, other) in [(named("k1"), keyed("k1")), (keyed("k2"), named("k2"))] {
            assert!(app.send(first, "{}").await.is_replay());
            let refused = app.send(other, "{}").await;
            assert_eq!((refused.code(), refused.json()["code"].as_str()), (403, Some("not_authorized")));
            assert!(!String::from_utf8_lossy(&refused.body).contains("secret"));
        }
        // And so where the record has to be read.
        app.engine.gate().clear();
    }
    assert_eq!(app.calls(), 2);
}

/// Who decides cannot be asked. Told *no*, a program would take its intent to another key and pay twice.
#[tokio::test]
async fn nobody_can_say_is_not_no() {
    let (yes, no, unknown) = (May::Yes, May::No, May::Unknown);
    for (may, status, next) in
        [(yes, 201, None), (no, 403, Some("ask_operator")), (unknown, 503, Some("retry_same_key"))]
    {
        let rules = rules().authorize(move |_: &Replaying<'_>| may);
        let app = App::serve(policy(|_| {}), rules, |_| async { answer(201, "secret") }).await;
        assert_eq!(app.post("k", "{}").await.code(), 201);
        let again = app.post("k", "{}").await;
        assert_eq!(again.code(), status);
        if let Some(next) = next {
            let said = again.json();
            assert_eq!((said["next_action"].as_str(), said["safe_new_key"].as_bool()), (Some(next), Some(false)));
        }
        assert_eq!(app.calls(), 1);
    }
}

/// Revocation: the hook decides on the request that asks now.
#[tokio::test]
async fn the_hook_decides_who_may_see_an_answer() {
    let may = |replaying: &Replaying<'_>| {
        assert_eq!(replaying.asked_first, Some("ann"));
        !replaying.request.headers.contains_key("x-revoked")
    };
    let app = App::serve(policy(|_| {}), rules().authorize(may), |_| async { answer(201, "done") }).await;
    assert_eq!(app.send(keyed("k").header("x-principal", "ann"), "{}").await.code(), 201);
    assert!(app.send(keyed("k").header("x-principal", "ben"), "{}").await.is_replay(), "the hook allows it");
    let revoked = keyed("k").header("x-principal", "ann").header("x-revoked", "1");
    assert_eq!(app.send(revoked, "{}").await.code(), 403);
    assert_eq!(app.calls(), 1);
}

#[tokio::test]
async fn principals_may_have_keys_of_their_own() {
    let app = App::serve(policy(|_| {}), rules().per_principal(), |_| async { answer(201, "done") }).await;
    for principal in ["ann", "ben"] {
        let by = || keyed("k").header("x-principal", principal);
        assert!(!app.send(by(), "{}").await.is_replay());
        assert!(app.send(by(), "{}").await.is_replay());
    }
    assert_eq!(app.calls(), 2);
}

/// Server-side overrides come before the fingerprint, and the handler gets what was fingerprinted.
#[tokio::test]
async fn overrides_are_applied_before_hashing_and_reach_the_handler() {
    let rules = rules().overrides(|_, body| {
        let mut json: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        json["currency"] = "EUR".into();
        json.to_string().into()
    });
    let app = App::serve(policy(|_| {}), rules, |request| async move {
        let length: usize = request.headers()["content-length"].to_str().unwrap().parse().unwrap();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), length);
        answer(201, body)
    })
    .await;
    let first = app.post("k", r#"{"amount":1,"currency":"US dollars"}"#).await;
    assert_eq!(first.json()["currency"], "EUR");
    assert!(app.post("k", r#"{"amount":1,"currency":"GBP"}"#).await.is_replay(), "the server decides the currency");
}
