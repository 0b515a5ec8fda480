//! The lower level, step by step, as a gateway walks it.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{
    Effect, Millis, Stamp, StateName,
    identity::{Surface, Tenant},
};
use hapax_engine::{Engine, Stepped};
use hapax_http::{Answer, Asked, Asking, Begin, Caller, Guard, Look, Peek, Rules, Running};
use hapax_store::{ManualClock, MemoryStore};
use http::{Request, Response, StatusCode, request};

fn guard() -> Guard {
    let engine = Engine::builder(Arc::new(MemoryStore::default())).build().unwrap();
    Guard::new(engine, Rules::on(Surface::new("http").unwrap()).effect(Effect::Irreversible)).unwrap()
}

fn post(key: Option<&str>) -> request::Parts {
    let mut request = Request::post("/v1/charges").header("content-type", "application/json");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.body(()).unwrap().into_parts().0
}

fn caller() -> Caller {
    Caller::of(Tenant::new("acme").unwrap())
}

fn ask(guard: &Guard, head: &request::Parts, body: &'static [u8]) -> Asking {
    match guard.ask(head, Bytes::from_static(body), &caller()) {
        Asked::Ask(asking) => *asking,
        other @ (Asked::Pass(_) | Asked::Answer(_)) => panic!("{other:?}"),
    }
}

async fn run(guard: &Guard, head: &request::Parts, body: &'static [u8]) -> Running {
    match ask(guard, head, body).begin(head).await {
        Begin::Run(running) => running,
        other @ (Begin::Unprotected { .. } | Begin::Answer(_)) => panic!("{other:?}"),
    }
}

fn created() -> Answer {
    Response::builder().status(201).header("location", "/v1/charges/1").body(Bytes::from_static(b"{\"id\":1}")).unwrap()
}

/// The gateway takes a connection between the look and the begin: the look must not write, or a refused connection
/// would leave a record of something that never began.
#[tokio::test]
async fn a_look_leaves_nothing_behind() {
    let guard = guard();
    let head = post(Some("k1"));
    assert!(matches!(guard.look(&head), Look::Buffer { .. }));
    let mut asking = ask(&guard, &head, b"{}");
    assert!(matches!(asking.peek(&head).await, Peek::Begin));
    let explained = guard.engine().explain(&asking.operation()).await.unwrap();
    assert_eq!(explained.state, StateName::Absent);
}

#[tokio::test]
async fn a_finished_request_is_answered_by_the_look_alone() {
    let guard = guard();
    let head = post(Some("k1"));
    let first = run(&guard, &head, b"{}").await.finish(created()).await;
    assert_eq!(first.status(), StatusCode::CREATED);
    let Peek::Answer(again) = ask(&guard, &head, b"{}").peek(&head).await else { panic!("not answered") };
    assert_eq!(again.status(), StatusCode::CREATED);
    assert_eq!(again.headers()["location"], "/v1/charges/1");
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(again.body(), first.body());
    let Peek::Answer(other) = ask(&guard, &head, b"{\"other\":1}").peek(&head).await else { panic!("not answered") };
    assert_eq!(other.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

/// A client sends its request again as it was, another serialises it anew, a third asks for something else. The first is
/// recognised by its bytes, before the canonical form is made; it must come to the same as for the second, whichever step
/// comes first, and be counted once. Nothing is begun under a print that is only half of one.
#[tokio::test]
async fn a_retry_in_the_same_bytes_and_one_in_others_are_told_the_same() {
    let spellings = [&br#"{"amount":1,"to":"b"}"#[..], br#"{ "to": "b", "amount": 1.0 }"#];
    for first in spellings {
        told_the_same(first, &spellings).await;
    }
}

/// The first in canonical form, which has one digest, or not.
async fn told_the_same(first: &'static [u8], spellings: &[&'static [u8]]) {
    let guard = guard();
    let head = post(Some("k1"));
    let first = run(&guard, &head, first).await.finish(created()).await;
    let hits = guard.engine().stats().gate_hits;
    for body in spellings {
        let Peek::Answer(peeked) = ask(&guard, &head, body).peek(&head).await else { panic!("not answered") };
        let Begin::Answer(begun) = ask(&guard, &head, body).begin(&head).await else { panic!("run again") };
        let at_once = Box::new(ask(&guard, &head, body)).begin_at_once(&head).await;
        let Ok(Begin::Answer(at_once)) = at_once else { panic!("run again") };
        for answer in [peeked, begun, at_once] {
            assert_eq!((answer.status(), answer.body()), (StatusCode::CREATED, first.body()));
        }
    }
    assert_eq!(guard.engine().stats().gate_hits, hits + 6, "each was answered from memory, and counted once");
    assert_eq!(guard.engine().tally().count(hapax_engine::Told::Replay), 6);
    let Peek::Answer(other) = ask(&guard, &head, br#"{"amount":2}"#).peek(&head).await else { panic!("not answered") };
    assert_eq!(other.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn what_is_not_ours_is_passed() {
    let guard = guard();
    assert_eq!(guard.look(&post(None)), Look::Pass);
    let mut get = post(Some("k1"));
    get.method = http::Method::GET;
    assert_eq!(guard.look(&get), Look::Pass);
}

/// A gateway that fails after the first byte was sent cannot say what happened; one that fails before can.
#[tokio::test]
async fn a_failure_after_the_first_byte_is_a_doubt_and_one_before_it_is_nothing() {
    let guard = guard();
    let head = post(Some("before"));
    let running = run(&guard, &head, b"{}").await;
    let id = running.ticket().id();
    running.no_effect().await;
    assert_eq!(guard.engine().explain(&id).await.unwrap().state, StateName::Absent);

    let head = post(Some("after"));
    let running = run(&guard, &head, b"{}").await;
    let id = running.ticket().id();
    running.unknown().await;
    assert_eq!(guard.engine().explain(&id).await.unwrap().state, StateName::InDoubt);
    let Peek::Answer(told) = ask(&guard, &head, b"{}").peek(&head).await else { panic!("not answered") };
    assert_eq!(told.status(), StatusCode::CONFLICT);
}

/// Whoever holds a connection must not wait with it for another's attempt: ten waiters would hold ten connections that
/// nobody uses. Without one it waits, as long as the policy says.
#[tokio::test]
async fn who_asks_at_once_is_told_at_once() {
    let guard = guard();
    let head = post(Some("k1"));
    let running = run(&guard, &head, b"{}").await;
    let asking = Box::new(ask(&guard, &head, b"{}"));
    let at_once = tokio::time::timeout(std::time::Duration::from_secs(5), asking.begin_at_once(&head));
    let mut asking = at_once.await.expect("it does not wait").expect_err("an attempt is under way");
    // It looks before the attempt has ended.
    let (told, finished) = tokio::join!(biased; asking.peek(&head), running.finish(created()));
    assert_eq!(finished.status(), StatusCode::CREATED);
    let Peek::Answer(told) = told else { panic!("it runs") };
    assert_eq!(told.status(), StatusCode::CREATED);
}

/// A gateway gives its upstream so much time and no more. A lease that went on after that would tell everybody that
/// something runs which nobody waits for. A stream is another matter: it goes on as long as it is read.
#[tokio::test]
async fn an_attempt_has_the_routes_time_and_a_stream_its_own() {
    let clock = Arc::new(ManualClock::new(Stamp(1_000_000)));
    let engine = Engine::builder(Arc::new(MemoryStore::new(clock.clone()))).build().unwrap();
    let rules = Rules::on(Surface::new("http").unwrap()).max_attempt(Millis::from_secs(90));
    let guard = Guard::new(engine, rules).unwrap();
    for (key, start, streams) in [("k1", 1_000_000, false), ("k2", 2_000_000, true)] {
        clock.set(Stamp(start));
        let head = post(Some(key));
        let running = run(&guard, &head, b"{}").await;
        let (given, _) = created().into_parts();
        let ticket =
            if streams { running.stream(&given, false).running().ticket().clone() } else { running.deferred() };
        for (second, allowed) in [(45, true), (89, true), (91, streams), (130, streams)] {
            clock.set(Stamp(start + second * 1_000));
            let renewed = ticket.renew(guard.engine()).await.unwrap();
            assert_eq!(matches!(renewed, Stepped::Done(_)), allowed, "{key} after {second} s: {renewed:?}");
        }
    }
}
