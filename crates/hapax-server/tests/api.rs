//! The API over real sockets.

use crate::support;
use crate::support::{Setup, ask, begin, step};
use serde_json::{Value, json};

/// The whole life of an operation, as another language sees it.
#[tokio::test]
async fn what_was_completed_is_replayed_word_for_word() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let (status, ticket) = begin(&client, json!({})).await;
    assert_eq!((status, ticket["verdict"].as_str()), (200, Some("execute")), "{ticket}");
    let (status, in_flight) = begin(&client, json!({})).await;
    assert_eq!((status, in_flight["code"].as_str()), (409, Some("HX0004")), "{in_flight}");
    assert_eq!(in_flight["next_action"], "retry_same_key");
    let outcome = json!({ "status": 201, "headers": [["x-id", "7"]], "body": "{\"id\":7}\n" });
    let (status, done) = step(&client, &ticket, "complete", json!({ "outcome": outcome })).await;
    assert_eq!((status, &done), (200, &json!({ "already": false, "late": false })));
    let (status, again) = step(&client, &ticket, "complete", json!({ "outcome": outcome })).await;
    assert_eq!((status, &again["already"]), (200, &json!(true)), "{again}");
    let (status, replay) = begin(&client, json!({})).await;
    assert_eq!((status, replay["verdict"].as_str()), (200, Some("replay")));
    assert_eq!(replay["outcome"]["body"], "{\"id\":7}\n");
    assert_eq!(replay["outcome"]["status"], 201);
    let (status, other) = begin(&client, json!({ "request": { "amount": 1 } })).await;
    assert_eq!((status, other["code"].as_str()), (422, Some("HX0005")), "{other}");
    let (status, conflict) = step(&client, &ticket, "complete", json!({ "outcome": { "body": "else" } })).await;
    assert_eq!((status, conflict["code"].as_str()), (409, Some("HX0077")), "{conflict}");
}

/// A cookie is a credential: replayed, it would log somebody in as whoever asked first. The HTTP layer never keeps one, and
/// neither does the API, whatever a worker hands in.
#[tokio::test]
async fn a_cookie_is_not_kept_of_an_outcome() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let (_, ticket) = begin(&client, json!({})).await;
    let headers = json!([["Set-Cookie", "session=s3cret"], ["x-id", "7"], ["Connection", "close"]]);
    let outcome = json!({ "status": 201, "headers": headers, "body": "done" });
    assert_eq!(step(&client, &ticket, "complete", json!({ "outcome": outcome })).await.0, 200);
    let (_, replay) = begin(&client, json!({})).await;
    assert_eq!(replay["outcome"]["headers"], json!([["x-id", "7"]]), "{replay}");
}

/// The answer to a begin is lost on the way. The same nonce gets the same ticket, or the caller would wait for itself.
#[tokio::test]
async fn a_lost_answer_to_begin_is_asked_for_again() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let nonce = json!({ "nonce": "000102030405060708090a0b0c0d0e0f" });
    let (_, first) = begin(&client, nonce.clone()).await;
    let (status, second) = begin(&client, nonce).await;
    assert_eq!(status, 200);
    assert_eq!(first["token"], second["token"]);
}

/// A token is all that it takes: another process, or this one after a restart, holds no ticket.
#[tokio::test]
async fn an_operation_begun_at_one_server_is_completed_at_another() {
    let one = Setup::default().start().await;
    let store = std::sync::Arc::clone(one.engine.store());
    let other = Setup { store, ..Setup::default() }.start().await;
    let (_, ticket) = begin(&one.client(), json!({})).await;
    assert_eq!(step(&other.client(), &ticket, "renew", json!({})).await.0, 200);
    assert_eq!(step(&other.client(), &ticket, "complete", json!({ "outcome": { "body": "done" } })).await.0, 200);
    assert_eq!(begin(&other.client(), json!({})).await.1["outcome"]["body"], "done");
    // The one that holds the ticket finds out by itself that it was done.
    let (status, late) = step(&one.client(), &ticket, "complete", json!({ "outcome": { "body": "done" } })).await;
    assert_eq!((status, &late["already"]), (200, &json!(true)), "{late}");
}

/// Admit first, start later: a start that was fenced must not run.
#[tokio::test]
async fn a_started_attempt_cannot_be_given_back_as_if_nothing_had_happened() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let (_, ticket) = begin(&client, json!({ "started": false })).await;
    assert_eq!(step(&client, &ticket, "start", json!({})).await.0, 200);
    let (status, refused) = step(&client, &ticket, "release", json!({})).await;
    assert_eq!((status, refused["code"].as_str()), (409, Some("HX0079")), "{refused}");
    assert_eq!(step(&client, &ticket, "release", json!({ "why": "no_effect" })).await.0, 200);
    assert_eq!(begin(&client, json!({})).await.1["verdict"], "execute");
}

/// A doubt: found in the list, explained in words, decided by an operator, and the decision is what callers get.
#[tokio::test]
async fn a_doubt_is_found_explained_and_decided() {
    let daemon = Setup { auth: support::keys(), ..Setup::default() }.start().await;
    let (client, operator) = (daemon.as_key("acme-client"), daemon.as_key("acme-operator"));
    let (_, ticket) = begin(&client, json!({ "effect": "irreversible" })).await;
    let failed = json!({ "outcome": { "class": "unknown" } });
    assert_eq!(step(&client, &ticket, "fail", failed).await.0, 200);
    let (status, doubt) = begin(&client, json!({ "effect": "irreversible" })).await;
    assert_eq!((status, doubt["code"].as_str()), (409, Some("HX0006")), "{doubt}");
    assert_eq!(doubt["new_key_is_safe"], false);
    let (_, list) = ask(&operator, "GET", "/v1/doubt", Value::Null).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    let id = list["items"][0]["operation"].as_str().unwrap();
    let (_, told) = ask(&operator, "GET", &format!("/v1/operations/{id}"), Value::Null).await;
    assert_eq!(told["advice"], "resolve");
    assert!(told["next"].as_str().unwrap().contains("Do not send it under a new key"), "{told}");
    let path = format!("/v1/operations/{id}:resolve");
    let decision = json!({
        "version": told["version"], "resolution": "committed", "outcome": { "body": "found at the bank" },
        "reason": "the bank has it",
    });
    // Whoever may not decide is told so, and nothing is written.
    assert_eq!(ask(&client, "POST", &path, decision.clone()).await.0, 403);
    let mut stale = decision.clone();
    stale["version"] = json!(1_000_000);
    let (status, moved) = ask(&operator, "POST", &path, stale).await;
    assert_eq!((status, moved["code"].as_str()), (409, Some("HX0078")), "{moved}");
    let (status, done) = ask(&operator, "POST", &path, decision).await;
    assert_eq!(status, 200, "{done}");
    assert_eq!(begin(&client, json!({})).await.1["outcome"]["body"], "found at the bank");
    let (_, audit) = ask(&daemon.root(), "GET", "/v1/audit", Value::Null).await;
    let actions: Vec<&str> =
        audit["rows"].as_array().unwrap().iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["resolve", "resolve_refused", "resolve"], "{audit}");
    // The late owner is fenced, and *explain* says what that means.
    let (status, late) = step(&client, &ticket, "complete", json!({ "outcome": { "body": "late" } })).await;
    assert_eq!((status, late["code"].as_str()), (409, Some("HX0016")), "{late}");
    let (_, told) = ask(&operator, "GET", &format!("/v1/operations/{id}"), Value::Null).await;
    let story = told["story"].to_string();
    assert!(story.contains("the bank has it") && story.contains("kept as evidence"), "{story}");
}

/// *Explain* by key names the cause of a replay and of a mismatch.
#[tokio::test]
async fn explain_names_the_cause_for_a_newcomer() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let (_, ticket) = begin(&client, json!({})).await;
    step(&client, &ticket, "complete", json!({ "outcome": { "body": "done" } })).await;
    begin(&client, json!({ "request": "other" })).await;
    begin(&client, json!({})).await;
    let wanted = json!({ "surface": "payments", "key": "order-17" });
    let with_tenant = json!({ "surface": "payments", "key": "order-17", "tenant": "default" });
    let (status, told) = ask(&client, "POST", "/v1/operations:explain", wanted).await;
    assert_eq!(status, 200, "{told}");
    assert!(told["story"].to_string().contains("a key names one intent"), "{told}");
    // Why the last one was answered without running: it was done by then, and its answer is kept.
    assert!(told["story"].to_string().contains("the answer is kept"), "{told}");
    assert!(told["next"].as_str().unwrap().contains("returns the recorded answer"), "{told}");
    assert_eq!(told["outcome"]["length"], 4);
    assert!(told["outcome"].get("body").is_none(), "bodies are not shown");
    let admin = hapax_client::Client::new(&daemon.admin).unwrap();
    assert_eq!(ask(&admin, "POST", "/v1/operations:explain", with_tenant).await.1["tenant"], "default");
}

/// Lists are paged, filtered, and every operation is on exactly one page.
#[tokio::test]
async fn a_list_walked_page_by_page_misses_nothing() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    for number in 0..25 {
        let (_, ticket) = begin(&client, json!({ "key": format!("k{number}") })).await;
        if number % 2 == 0 {
            step(&client, &ticket, "complete", json!({})).await;
        }
    }
    for (filter, expected) in [
        ("", 25),
        ("&surface=payments", 25),
        ("&surface=others", 0),
        ("&state=pending", 12),
        ("&surface=payments&state=committed", 13),
        ("&state=in_doubt", 0),
    ] {
        let (mut cursor, mut found) = (String::new(), std::collections::BTreeSet::new());
        loop {
            let (status, page) =
                ask(&client, "GET", &format!("/v1/operations?limit=7{filter}{cursor}"), Value::Null).await;
            assert_eq!(status, 200, "{page}");
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 7);
            found.extend(items.iter().map(|item| item["operation"].to_string()));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found.len(), expected, "{filter}");
    }
}

/// Policies are put in force by administrators, and the change is audited.
#[tokio::test]
async fn a_policy_change_is_in_force_at_once_and_in_the_audit_log() {
    let daemon = Setup::default().start().await;
    let admin = hapax_client::Client::new(&daemon.admin).unwrap();
    let put = |text: &'static str| {
        let admin = admin.clone();
        async move { admin.raw("PUT".parse().unwrap(), "/v1/policies", text.as_bytes()).await.unwrap() }
    };
    let (status, refused) = put("[surface.payments]\nlaese = \"5s\"").await;
    let refused = String::from_utf8_lossy(&refused).into_owned();
    assert_eq!(status, 400);
    assert!(refused.contains("did you mean `lease`"), "{refused}");
    assert_eq!(put("[surface.payments]\nlease = \"5s\"").await.0, 200);
    assert_eq!(begin(&daemon.client(), json!({})).await.1["lease_ms"], 5000);
    let (_, policies) = ask(&daemon.client(), "GET", "/v1/policies", Value::Null).await;
    assert_eq!(policies["surfaces"]["payments"]["knobs"]["lease"], "5s");
    assert_eq!(ask(&admin, "GET", "/v1/audit", Value::Null).await.1["rows"][0]["action"], "policy_change");
    // At the tenants' door there is no such thing.
    assert_eq!(ask(&daemon.client(), "PUT", "/v1/policies", json!({})).await.0, 405);
    assert_eq!(ask(&daemon.client(), "GET", "/v1/audit", Value::Null).await.0, 404);
}

/// "Why was this replayed?" at three in the morning: what the answer to a retry came from, and whose lease holds up the next
/// one, must stand there; also where the answer came from memory, which leaves no event.
#[tokio::test]
async fn explain_shows_the_lease_where_keys_come_from_and_replays_from_memory() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let (_, ticket) = begin(&client, json!({ "lease_ms": 30_000 })).await;
    let path = format!("/v1/operations/{}", ticket["operation"].as_str().unwrap());
    let (_, told) = ask(&client, "GET", &path, Value::Null).await;
    let running = &told["attempts"][0];
    assert_eq!((&running["lease_ms"], &running["end"]), (&json!(30_000), &json!("running")), "{told}");
    assert!((1..=30_000).contains(&running["lease_left_ms"].as_u64().unwrap()), "{told}");
    assert_eq!(told["key_from"], "given by the caller");
    step(&client, &ticket, "complete", json!({ "outcome": { "body": "done" } })).await;
    for _ in 0..2 {
        assert_eq!(begin(&client, json!({})).await.1["verdict"], "replay");
    }
    let (_, told) = ask(&client, "GET", &path, Value::Null).await;
    assert_eq!(told["given_from_memory"], 2, "{told}");
    assert!(told["story"].to_string().contains("again 2 times"), "{told}");
    let ended = &told["attempts"][0];
    assert_eq!((&ended["lease_ms"], &ended["lease_left_ms"]), (&json!(30_000), &Value::Null), "none runs: {told}");

    let beat = json!({ "session": "s1", "messages": ["m1"] });
    let number = ask(&client, "POST", "/v1/beats:gather", beat).await.1["beat"].clone();
    let named = json!({ "session": "s1", "beat": number });
    ask(&client, "POST", "/v1/beats:seal", named.clone()).await;
    let (_, ticket) = ask(&client, "POST", "/v1/beats:begin", named).await;
    let path = format!("/v1/operations/{}", ticket["operation"].as_str().unwrap());
    let (_, told) = ask(&client, "GET", &path, Value::Null).await;
    assert!(told["key_from"].as_str().unwrap().contains("messages of the beat"), "{told}");
    // By a key that was never used: what else may be missing is said.
    let (status, told) =
        ask(&client, "POST", "/v1/operations:explain", json!({ "surface": "payments", "key": "order-18" })).await;
    assert_eq!((status, &told["code"]), (404, &json!("HX0010")), "{told}");
    assert!(told["detail"].as_str().unwrap().contains("--endpoint"), "{told}");
}

/// Readiness says what the store really promises; the capability document what is really configured.
#[tokio::test]
async fn the_process_tells_the_truth_about_itself() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let (status, ready) = ask(&client, "GET", "/readyz", Value::Null).await;
    assert_eq!((status, ready["durability"].as_str()), (200, Some("best_effort")), "{ready}");
    let (_, wop) = ask(&client, "GET", "/.well-known/openwop", Value::Null).await;
    assert_eq!(wop["capabilities"]["idempotency"]["layer1RetentionSeconds"], 86_400);
    assert_eq!(wop["capabilities"]["idempotency"]["crossRegion"], "single-region");
    let (_, document) = ask(&client, "GET", "/openapi.json", Value::Null).await;
    assert!(document["paths"]["/v1/operations:begin"]["post"]["requestBody"].is_object(), "{document}");
}

/// A list and *explain* give the same advice, also on what came too late.
#[tokio::test]
async fn a_list_advises_as_explain_does() {
    let text = "[default]\nsuccess = \"1ms\"\nafter_window = \"refuse\"\n";
    let daemon =
        Setup { policies: hapax_engine::Policies::from_toml(text).unwrap().0, ..Setup::default() }.start().await;
    let client = daemon.client();
    let (_, ticket) = begin(&client, json!({})).await;
    step(&client, &ticket, "complete", json!({ "outcome": {} })).await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let (_, listed) = ask(&client, "GET", "/v1/operations", Value::Null).await;
    let path = format!("/v1/operations/{}", ticket["operation"].as_str().unwrap());
    let (_, explained) = ask(&client, "GET", &path, Value::Null).await;
    assert_eq!(listed["items"][0]["state"], "tombstone", "{listed}");
    assert_eq!(listed["items"][0]["next"], explained["advice"], "{listed}\n{explained}");
    assert_eq!(begin(&client, json!({})).await.1["code"], "HX0013");
}
