//! Requests that bring no key and are known by what they say within five minutes.

use std::num::NonZeroU64;

use crate::support::*;
use hapax_core::{
    Effect, StateName, Verdict,
    identity::recipes::acf::{ContentKeys, content_keys},
};
use hapax_engine::{Begun, Call, Engine, Wait};

const BUCKET: u64 = 300;

fn keys(now_s: u64) -> ContentKeys {
    content_keys("t1", "c1", &["b", "a"], now_s, NonZeroU64::new(BUCKET).unwrap())
}

async fn ask(engine: &Engine, now_s: u64) -> Begun {
    let call = |call: Call| call.effect(Effect::Unsafe).wait(Wait::No);
    engine.surface("pay").tenant("acme").begin_content(&keys(now_s), call).await.unwrap()
}

async fn state(engine: &Engine, key: &hapax_core::identity::Key) -> StateName {
    let id = engine.surface("pay").tenant("acme").with_key(key.clone()).id().unwrap();
    engine.explain(&id).await.unwrap().state
}

/// The first message comes in the last second of a stretch and its retry in the first of the next. It must not run again,
/// whatever became of the first meanwhile.
#[tokio::test(start_paused = true)]
async fn a_retry_over_the_border_of_two_stretches_finds_the_original() {
    let border = 10 * BUCKET;
    let world = World::new();
    let engine = world.engine();
    let Begun::Execute(ticket) = ask(&engine, border - 1).await else { panic!("it is new") };
    assert!(ticket.start(&engine).await.unwrap().is_done());
    assert!(matches!(ask(&engine, border).await, Begun::Told(Verdict::InFlight { .. })));
    assert_eq!(state(&engine, &keys(border).own).await, StateName::Absent, "its own reservation was given back");
    assert!(ticket.complete(&engine, done("\"said\"")).await.unwrap().is_done());
    assert!(matches!(ask(&engine, border).await, Begun::Replay(_)));
    assert!(matches!(ask(&engine, border - 1).await, Begun::Replay(_)));
    // Two stretches later the same words are a new message.
    assert!(matches!(ask(&engine, border + BUCKET).await, Begun::Execute(_)));
}

/// The first failed for now: its retry over the border goes on with it, and does not begin beside it.
#[tokio::test(start_paused = true)]
async fn a_retry_over_the_border_goes_on_with_what_failed_before_it() {
    let border = 10 * BUCKET;
    let world = World::new();
    let engine = world.engine();
    let Begun::Execute(ticket) = ask(&engine, border - 1).await else { panic!("it is new") };
    let failure = hapax_core::Outcome { class: hapax_core::OutcomeClass::RetryableFailure, ..done("1") };
    assert!(ticket.fail(&engine, failure).await.unwrap().is_done());
    let Begun::Execute(again) = ask(&engine, border).await else { panic!("it may be tried again") };
    assert_eq!((again.attempt(), again.id()), (2, ticket.id()));
    assert_eq!(state(&engine, &keys(border).own).await, StateName::Absent);
}

/// Nothing was said before: it is its own, and a repeat in the same stretch finds it.
#[tokio::test(start_paused = true)]
async fn without_an_earlier_one_it_is_its_own() {
    let world = World::new();
    let engine = world.engine();
    assert!(matches!(ask(&engine, 5).await, Begun::Execute(_)), "there is none before the first stretch");
    assert!(matches!(ask(&engine, 6).await, Begun::Told(Verdict::InFlight { .. })));
}
