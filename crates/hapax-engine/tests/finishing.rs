//! How an attempt ended, said by a class of outcome: whether it had started decides what that means.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::*;
use hapax_core::{Body, Outcome, OutcomeClass, Preset, StateName, Verdict};
use hapax_engine::{Begun, Engine, Ticket};

const BROKEN_OFF: [OutcomeClass; 2] = [OutcomeClass::Cancelled, OutcomeClass::NotAdmitted];

fn ended(class: OutcomeClass) -> Outcome {
    Outcome::new(class, Body::Empty)
}

/// By whoever holds the ticket, or by another process that was only told the token.
async fn finish(engine: &Engine, ticket: &Ticket, by_token: bool, class: OutcomeClass) {
    let finished = if by_token {
        engine.finish(&ticket.id(), ticket.token(), ended(class)).await
    } else {
        ticket.finish(engine, ended(class)).await
    };
    let finished = finished.unwrap();
    assert!(finished.is_done(), "{class:?}: {finished:?}");
}

/// The caller of unsafe work breaks off after its start and says so. Whether the effect happened nobody knows: with its key
/// free again, the next caller would make it happen twice.
#[tokio::test(start_paused = true)]
async fn breaking_off_after_the_start_frees_no_key() {
    let world = World::new();
    let engine = world.engine();
    for (number, class) in BROKEN_OFF.into_iter().enumerate() {
        for by_token in [false, true] {
            let key = format!("k{number}{by_token}");
            let ticket = begin(call(&engine, &key)).await;
            finish(&engine, &ticket, by_token, class).await;
            assert_eq!(state(&engine, &ticket.id()).await, StateName::InDoubt, "{class:?}");
            let next = call(&engine, &key).begin().await.unwrap();
            assert!(matches!(next, Begun::Told(Verdict::InDoubt { .. })), "{next:?}");
            // Said again, it is so already.
            finish(&engine, &ticket, by_token, class).await;
        }
    }
}

/// The same before the start: nothing happened, and the corrected request runs.
#[tokio::test(start_paused = true)]
async fn breaking_off_before_the_start_leaves_nothing() {
    let world = World::new();
    let engine = world.engine();
    for (number, class) in BROKEN_OFF.into_iter().enumerate() {
        for by_token in [false, true] {
            let key = format!("k{number}{by_token}");
            let ticket = begin(call(&engine, &key).fingerprint("wrong").not_started()).await;
            finish(&engine, &ticket, by_token, class).await;
            assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent, "{class:?}");
            finish(&engine, &ticket, by_token, class).await;
            assert!(pay(call(&engine, &key).fingerprint("right"), "v").await.is_ok());
        }
    }
}

/// Under a preset that releases before the start, a retryable failure before it must not leave the print of its request: the
/// corrected one would be a mismatch.
#[tokio::test(start_paused = true)]
async fn a_retryable_failure_before_the_start_leaves_no_fingerprint() {
    for preset in [Preset::Run, Preset::Api, Preset::Beat, Preset::Tool] {
        let world = World::new();
        let engine = world.engine_with(preset.policy());
        for by_token in [false, true] {
            let key = format!("k{by_token}");
            let ticket = begin(call(&engine, &key).fingerprint("wrong").not_started()).await;
            finish(&engine, &ticket, by_token, OutcomeClass::RetryableFailure).await;
            assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent, "{}", preset.name());
            let started = begin(call(&engine, &key).fingerprint("right")).await;
            finish(&engine, &started, by_token, OutcomeClass::RetryableFailure).await;
            assert_eq!(state(&engine, &ticket.id()).await, StateName::Open, "{}", preset.name());
            finish(&engine, &started, by_token, OutcomeClass::RetryableFailure).await;
        }
    }
}

/// One process admits and another starts the work with its token. The first one's ticket still says *not started*; breaking
/// off on its word would free the key of something that may be under way.
#[tokio::test(start_paused = true)]
async fn a_start_elsewhere_counts_when_the_ticket_breaks_off() {
    let world = World::new();
    let (engine, other) = (world.engine(), world.engine());
    for (number, class) in BROKEN_OFF.into_iter().enumerate() {
        let ticket = begin(call(&engine, &format!("k{number}")).not_started()).await;
        assert!(other.start(&ticket.id(), ticket.token()).await.unwrap().is_done());
        finish(&engine, &ticket, false, class).await;
        assert_eq!(state(&engine, &ticket.id()).await, StateName::InDoubt, "{class:?}");
    }
}

/// The word that nothing happened counts after the start too.
#[tokio::test(start_paused = true)]
async fn the_word_that_nothing_happened_frees_the_key() {
    let world = World::new();
    let engine = world.engine();
    for by_token in [false, true] {
        let ticket = begin(call(&engine, "k")).await;
        finish(&engine, &ticket, by_token, OutcomeClass::NotRecordable).await;
        assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent);
    }
}
