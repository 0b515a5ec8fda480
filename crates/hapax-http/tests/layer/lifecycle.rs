//! From the first request to the last duplicate: who runs, who waits, who is told what.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use hapax_core::policy::{Mode, OnInFlight};
use hapax_core::{Body, Effect, Millis, Outcome, OutcomeClass, Preset, StateName, policy::OnStoreError};
use hapax_http::{Mark, Operation};
use hapax_store::Fault;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::support::{App, Held, answer, keyed, policy, rules, until};

#[tokio::test]
async fn safe_methods_pass_untouched_and_their_key_is_ignored() {
    let app = App::serve(policy(|_| {}), rules().require_key(), |_| async { answer(200, "") }).await;
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
        for key in [Some("k"), Some("not a key"), None] {
            let mut request = Request::builder().method(method.clone()).uri("/orders");
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            let reply = app.send(request, "").await;
            assert_eq!((reply.code(), reply.is_replay()), (200, false), "{method} {key:?}");
        }
    }
    assert_eq!(app.calls(), 12);
}

/// The seed's own test: ten at once, one key, one run, ten equal answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_at_once_are_one_call_and_ten_equal_answers() {
    for h2 in [false, true] {
        let number = Arc::new(AtomicUsize::new(0));
        let app = App::serve(policy(|_| {}), rules(), move |_| {
            let run = number.fetch_add(1, SeqCst);
            async move {
                tokio::task::yield_now().await;
                let mut given = answer(201, format!("run-{run}"));
                given.headers_mut().insert("location", format!("/runs/{run}").parse().unwrap());
                given
            }
        })
        .await;
        let app = Arc::new(app);
        let mut crowd = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let app = Arc::clone(&app);
            let request =
                move || keyed("same-key").version(if h2 { http::Version::HTTP_2 } else { http::Version::HTTP_11 });
            crowd.spawn(async move {
                if h2 {
                    let uri = format!("http://{}/orders", app.address);
                    app.send_h2(request().uri(uri), "{}").await
                } else {
                    app.send(request(), "{}").await
                }
            });
        }
        let replies = crowd.join_all().await;
        assert_eq!(app.calls(), 1);
        let mut ran = 0;
        for reply in &replies {
            assert_eq!((reply.code(), &reply.body[..]), (201, &b"run-0"[..]));
            assert_eq!((reply.header("location"), reply.header("content-type")), (Some("/runs/0"), Some("text/plain")));
            ran += usize::from(!reply.is_replay());
        }
        assert_eq!(ran, 1, "one ran, nine were given its answer");
    }
}

/// A caller that hangs up half-way has still asked for it: it happens once, and a retry gets the answer.
#[tokio::test]
async fn a_client_that_disconnects_does_not_cancel_the_effect() {
    let held = Held::new();
    let handler = held.clone();
    let finished = Arc::new(AtomicUsize::new(0));
    let effects = Arc::clone(&finished);
    let app = App::serve(policy(|_| {}), rules(), move |_| {
        let (held, effects) = (handler.clone(), Arc::clone(&effects));
        async move {
            held.wait().await;
            effects.fetch_add(1, SeqCst);
            answer(201, "charged")
        }
    })
    .await;
    let mut socket = TcpStream::connect(app.address).await.unwrap();
    let request = "POST /orders HTTP/1.1\r\nhost: t\r\nauthorization: acme\r\ncontent-type: application/json\r\nidempotency-key: k\r\ncontent-length: 2\r\n\r\n{}";
    socket.write_all(request.as_bytes()).await.unwrap();
    held.entered().await;
    drop(socket);
    held.let_go();
    until("the handler has run to its end", || async { finished.load(SeqCst) == 1 }).await;
    let again = app.post("k", "{}").await;
    assert_eq!((again.code(), &again.body[..], again.is_replay()), (201, &b"charged"[..], true));
    assert_eq!(app.calls(), 1);
}

#[tokio::test]
async fn a_panic_is_a_500_and_the_record_follows_the_class_of_the_effect() {
    for (effect, reruns) in [(Effect::Idempotent, true), (Effect::Unsafe, false), (Effect::Irreversible, false)] {
        for preset in [Preset::Standard, Preset::Stripe, Preset::Openwop] {
            let app = App::serve(preset.policy(), rules().effect(effect), |_| async { panic!("planted panic") }).await;
            let reply = app.post("k", "{}").await;
            assert_eq!((reply.code(), reply.json()["code"].as_str()), (500, Some("no_answer")));
            assert!(!String::from_utf8_lossy(&reply.body).contains("planted panic"));
            let again = app.post("k", "{}").await;
            assert_eq!(again.code(), if reruns { 500 } else { 409 }, "{effect} under {}", preset.name());
            assert_eq!(app.calls(), if reruns { 2 } else { 1 });
        }
    }
}

/// Answers the statuses of a list, one after the other.
async fn scripted(preset: Preset, effect: Effect, statuses: &'static [u16]) -> App {
    let at = Arc::new(AtomicUsize::new(0));
    App::serve(preset.policy(), rules().effect(effect), move |_| {
        let at = at.fetch_add(1, SeqCst);
        async move { answer(statuses[at.min(statuses.len() - 1)], format!("run {at}")) }
    })
    .await
}

#[tokio::test]
async fn a_retryable_answer_is_never_given_again_and_a_success_replaces_it() {
    for preset in [Preset::Standard, Preset::Openwop] {
        for status in [429, 500, 503] {
            let statuses: &'static [u16] = match status {
                429 => &[429, 200],
                500 => &[500, 200],
                _ => &[503, 200],
            };
            let app = scripted(preset, Effect::Unsafe, statuses).await;
            assert_eq!(app.post("k", "{}").await.code(), status);
            // An open record keeps its fingerprint: the key still means that request.
            assert_eq!(app.post("k", "{\"other\":1}").await.code(), 422);
            let second = app.post("k", "{}").await;
            assert_eq!((second.code(), second.is_replay()), (200, false), "{} {status}", preset.name());
            let third = app.post("k", "{}").await;
            assert_eq!((third.code(), third.is_replay(), &third.body[..]), (200, true, &b"run 1"[..]));
            assert_eq!(app.calls(), 2);
        }
    }
}

#[tokio::test]
async fn under_stripe_a_5xx_is_given_again_and_a_429_is_not() {
    let app = scripted(Preset::Stripe, Effect::Irreversible, &[500, 200]).await;
    assert_eq!(app.post("k", "{}").await.code(), 500);
    let again = app.post("k", "{}").await;
    assert_eq!((again.code(), again.is_replay(), app.calls()), (500, true, 1));
    let app = scripted(Preset::Stripe, Effect::Irreversible, &[429, 200]).await;
    assert_eq!(app.post("k", "{}").await.code(), 429);
    assert_eq!((app.post("k", "{}").await.code(), app.calls()), (200, 2));
}

#[tokio::test]
async fn a_refusal_by_the_handler_leaves_nothing_behind() {
    for statuses in [&[400, 201][..], &[401, 201], &[403, 201]] {
        let app = scripted(Preset::Standard, Effect::Irreversible, statuses).await;
        assert_eq!(app.post("k", "{\"wrong\":1}").await.code(), statuses[0]);
        // Not even the fingerprint: the corrected request may use the same key.
        let corrected = app.post("k", "{\"right\":1}").await;
        assert_eq!((corrected.code(), corrected.is_replay()), (201, false));
        assert!(app.post("k", "{\"right\":1}").await.is_replay());
    }
}

#[tokio::test]
async fn the_handlers_own_word_goes_before_the_status() {
    let cases = [
        (400, Mark::Final, StateName::Rejected),
        (503, Mark::Final, StateName::Rejected),
        (201, Mark::Final, StateName::Committed),
        (404, Mark::Retryable, StateName::Open),
        (201, Mark::NoEffect, StateName::Absent),
        (500, Mark::NoEffect, StateName::Absent),
        (200, Mark::Unknown, StateName::InDoubt),
    ];
    for (status, mark, expected) in cases {
        let id = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&id);
        let app = App::serve(policy(|_| {}), rules(), move |request| {
            *seen.lock() = request.extensions().get::<Operation>().map(|operation| operation.0.id());
            async move {
                let mut given = answer(status, "answer");
                given.extensions_mut().insert(mark);
                given
            }
        })
        .await;
        assert_eq!(app.post("k", "{}").await.code(), status);
        let id = id.lock().unwrap();
        assert_eq!(app.engine.explain(&id).await.unwrap().state, expected, "{status} marked {mark:?}");
    }
}

/// The handler answers "accepted" and a workflow ends the operation later, from elsewhere, by its token alone.
#[tokio::test]
async fn a_deferred_answer_is_completed_by_its_token() {
    let tickets = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&tickets);
    let reject = policy(|policy| policy.on_in_flight = OnInFlight::Reject);
    let app = App::serve(reject, rules().effect(Effect::Irreversible), move |request| {
        let operation = request.extensions().get::<Operation>().cloned().unwrap();
        seen.lock().push((operation.0.id(), operation.0.token().to_text()));
        async move {
            let mut given = answer(202, "accepted");
            given.extensions_mut().insert(operation.defer());
            given
        }
    })
    .await;
    let accepted = app.post("k", "{}").await;
    assert_eq!((accepted.code(), &accepted.body[..]), (202, &b"accepted"[..]));
    assert_eq!(app.post("k", "{}").await.code(), 409, "it is under way");
    let (id, token) = tickets.lock()[0].clone();
    let token = hapax_core::Token::parse(&token).unwrap();
    // The workflow renews what it holds.
    app.clock.advance(Millis::from_secs(50));
    assert!(app.engine.renew(&id, token, Millis::from_secs(60)).await.unwrap().is_done());
    app.clock.advance(Millis::from_secs(50));
    let outcome = Outcome {
        class: OutcomeClass::Success,
        status: 201,
        headers: vec![("content-type".into(), "application/json".into())],
        body: Body::Inline("{\"done\":true}".into()),
    };
    assert!(app.engine.finish(&id, token, outcome).await.unwrap().is_done());
    let last = app.post("k", "{}").await;
    assert_eq!((last.code(), &last.body[..], last.is_replay()), (201, &b"{\"done\":true}"[..], true));
    assert_eq!(last.header("content-type"), Some("application/json"));

    // One that nobody renews lapses by its class.
    assert_eq!(app.post("k2", "{}").await.code(), 202);
    app.clock.advance(Millis::from_secs(61));
    let told = app.post("k2", "{}").await;
    assert_eq!((told.code(), told.json()["code"].as_str()), (409, Some("in_doubt")));
    assert_eq!(app.calls(), 2);
}

/// The key to pass on is the same over all attempts, and says nothing about the caller's key.
#[tokio::test]
async fn the_handler_is_given_a_key_to_pass_on() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&keys);
    let app = App::serve(policy(|_| {}), rules(), move |request| {
        let operation = request.extensions().get::<Operation>().cloned().unwrap();
        seen.lock().push((operation.0.downstream_key(), operation.0.attempt()));
        async { answer(503, "busy") }
    })
    .await;
    app.post("the-callers-key", "{}").await;
    app.post("the-callers-key", "{}").await;
    let keys = keys.lock();
    assert_eq!((keys[0].1, keys[1].1), (1, 2));
    assert_eq!(keys[0].0, keys[1].0);
    assert!(!keys[0].0.contains("the-callers-key"));
}

/// It ran, and the store died before its answer was recorded. Its caller must not be told a success that a retry might
/// not repeat; once the store is back, the answer that was kept ready is recorded.
#[tokio::test]
async fn an_answer_that_cannot_be_recorded_is_not_given_and_is_recorded_later() {
    let held = Held::new();
    let handler = held.clone();
    let app = App::serve(policy(|_| {}), rules().effect(Effect::Irreversible), move |_| {
        let held = handler.clone();
        async move {
            held.wait().await;
            answer(201, "charged")
        }
    })
    .await;
    let store = async {
        held.entered().await;
        app.store.script(Fault::Stale(1_000_000));
        held.let_go();
    };
    let (reply, ()) = tokio::join!(app.send(keyed("k"), "{}"), store);
    let said = reply.json();
    assert_eq!(
        (reply.code(), said["code"].as_str(), said["safe_new_key"].as_bool()),
        (503, Some("unavailable"), Some(false))
    );
    app.store.calm();
    until("the answer is recorded", || async { app.post("k", "{}").await.code() == 201 }).await;
    assert_eq!(app.calls(), 1);
}

#[tokio::test]
async fn pure_work_may_go_on_without_the_store_and_says_so() {
    let open = policy(|policy| policy.on_store_error = OnStoreError::FailOpen);
    for (effect, status) in [(Effect::Pure, 200), (Effect::Idempotent, 503)] {
        let app = App::serve(open.clone(), rules().effect(effect), |_| async { answer(200, "quote") }).await;
        app.store.script(Fault::Stale(1_000_000));
        let reply = app.post("k", "{}").await;
        assert_eq!(reply.code(), status, "{effect}");
        assert_eq!(reply.header("hapax-unrecorded"), (status == 200).then_some("true"));
    }
}

/// Shadow mode decides everything and stops nothing: all run, and what would have been stopped is listed.
#[tokio::test]
async fn shadow_mode_stops_nothing_and_lists_what_it_would_have_stopped() {
    let number = Arc::new(AtomicUsize::new(0));
    let shadow = policy(|policy| policy.mode = Mode::Shadow);
    let app = App::serve(shadow, rules(), move |_| {
        let run = number.fetch_add(1, SeqCst);
        async move { answer(201, format!("run {run}")) }
    })
    .await;
    for run in 0..3 {
        let reply = app.post("k", "{}").await;
        assert_eq!((&reply.body[..], reply.is_replay()), (format!("run {run}").as_bytes(), false));
    }
    assert_eq!(app.post("k", "{\"other\":1}").await.code(), 201);
    let stops: Vec<&str> = app.engine.shadow().list().iter().map(|stop| stop.because).collect();
    assert_eq!(stops, ["replay", "replay", "mismatch"]);
}

/// Nor does it stop what could not even be asked about: without a key, with a bad one, of nobody, or too long.
#[tokio::test]
async fn shadow_mode_lets_pass_what_is_no_question() {
    let shadow = policy(|policy| policy.mode = Mode::Shadow);
    let limits = hapax_http::Limits { request_body: 8, ..hapax_http::Limits::default() };
    let app = App::serve(shadow, rules().require_key().limits(limits), |request| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        answer(201, body)
    })
    .await;
    let nobodys = http::Request::post("/orders").header("idempotency-key", "k");
    for (name, request, body) in [
        ("key missing", crate::support::post("/orders"), "{}"),
        ("key invalid", keyed("k").header("idempotency-key", "other"), "{}"),
        ("no credential", nobodys, "{}"),
        ("too large", keyed("k"), "more than eight bytes"),
    ] {
        let reply = app.send(request, body).await;
        assert_eq!((reply.code(), &reply.body[..]), (201, body.as_bytes()), "{name}");
        assert_eq!(app.engine.shadow().list().last().unwrap().because, name);
    }
    assert_eq!((app.calls(), app.engine.stats().shadow_stops), (4, 4));
}

/// A policy that is put in force while the server runs counts from the next request on.
#[tokio::test]
async fn a_reload_reaches_the_route() {
    let app = App::serve(policy(|_| {}), rules(), |_| async { answer(201, "done") }).await;
    assert_eq!(app.send(crate::support::post("/orders"), "{}").await.code(), 201);
    let reload = |policy| {
        let mut policies = hapax_engine::Policies::default();
        policies.set(hapax_core::identity::Surface::new("http").unwrap(), policy).unwrap();
        app.engine.reload(policies);
    };
    reload(policy(|policy| policy.key.required = Some(true)));
    assert_eq!(app.send(crate::support::post("/orders"), "{}").await.code(), 400);
    assert_eq!(app.calls(), 1);
    // One that does not go with the route leaves the one before it in force, and the next one that does is taken.
    reload(policy(|policy| policy.capture.on_uncaptured = hapax_core::policy::OnUncaptured::Reinvoke));
    for _ in 0..2 {
        assert_eq!(app.send(crate::support::post("/orders"), "{}").await.code(), 400);
    }
    reload(policy(|_| {}));
    assert_eq!(app.send(crate::support::post("/orders"), "{}").await.code(), 201);
}
