//! Leases: kept while work runs, lost when they cannot be kept, and what becomes of the work then.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use crate::support::*;
use hapax_core::{
    Cause, Effect, Millis, StateName,
    command::{Refused, Release},
};
use hapax_engine::{OnceError, Stepped, Wait};
use tokio::time::Instant;

/// An effect that takes ten times its lease keeps it: renewed at a third of its length, and nobody else gets in.
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_at_a_third_of_its_length() {
    let world = World::new();
    let engine = world.engine();
    let running = tokio::spawn(call(&engine, "k").lease(Millis::from_secs(30)).once(|_| async {
        sleep(300_000).await;
        Ok::<_, Failed>("v".to_owned())
    }));
    for _ in 0..29 {
        sleep(10_000).await;
        let told = never(call(&engine, "k").wait(Wait::No)).await;
        assert!(matches!(told, Err(OnceError::InFlight { .. })), "{told:?}");
    }
    assert_eq!(running.await.unwrap().unwrap().attempt, 1);
    let renewals =
        engine.events().of(&id(&engine, "k")).iter().filter(|logged| logged.event.cause == Cause::Renew).count();
    assert!((28..=30).contains(&renewals), "{renewals} renewals in ten leases");
}

/// The store is away for longer than the lease. Work that may run again is stopped at the deadline and says so; work
/// that may not runs to its end, and its late outcome is offered and taken.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_only_what_may_run_again() {
    for effect in Effect::ALL {
        let world = World::new();
        let engine = world.engine();
        let ended = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&ended);
        let started = Instant::now();
        let running = tokio::spawn(call(&engine, "k").effect(effect).once(move |_| async move {
            sleep(100_000).await;
            counter.fetch_add(1, SeqCst);
            Ok::<_, Failed>("late".to_owned())
        }));
        sleep(1_000).await;
        world.store.mood(Mood::Down);
        sleep(80_000).await;
        if effect.may_rerun() {
            assert!(matches!(running.await.unwrap(), Err(OnceError::LeaseLost)), "{effect}");
            assert!(started.elapsed().as_secs() <= 82);
            world.store.mood(Mood::Well);
            sleep(100_000).await;
            assert_eq!(ended.load(SeqCst), 0, "{effect}: it was cancelled");
            assert_eq!(pay(call(&engine, "k").effect(effect), "again").await.unwrap().attempt, 2);
        } else {
            world.store.mood(Mood::Well);
            let told = never(call(&engine, "k").effect(effect).wait(Wait::No)).await;
            assert!(matches!(told, Err(OnceError::InDoubt { .. })), "{effect}: {told:?}");
            assert_eq!(running.await.unwrap().unwrap().value, "late", "{effect}");
            assert_eq!((ended.load(SeqCst), engine.stats().late), (1, 1));
            assert_eq!(never(call(&engine, "k").effect(effect)).await.unwrap().value, "late");
        }
    }
}

/// A cancelled closure is stopped at the deadline that counts from before the last renewal was sent, not later.
#[tokio::test(start_paused = true)]
async fn the_local_deadline_is_never_later_than_the_stores() {
    let world = World::new();
    let engine = world.engine();
    let started = Instant::now();
    let running = tokio::spawn(call(&engine, "k").effect(Effect::Pure).once(|_| async {
        sleep(1_000_000).await;
        Ok::<_, Failed>(1)
    }));
    sleep(25_000).await;
    // One renewal happened at 20 s. From now on none does.
    world.store.mood(Mood::Silent);
    assert!(matches!(running.await.unwrap(), Err(OnceError::LeaseLost)));
    let ran = started.elapsed().as_millis();
    assert!((79_000..=80_000).contains(&ran), "{ran} ms");
}

/// An attempt has a longest time: renewals are refused past it, and pure work is stopped.
#[tokio::test(start_paused = true)]
async fn an_attempt_past_its_longest_time_is_not_renewed() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.max_attempt = Some(Millis::from_secs(90))));
    let started = Instant::now();
    let pure: Given<u8> = call(&engine, "pure")
        .effect(Effect::Pure)
        .once(|_| async {
            sleep(1_000_000).await;
            Ok(1)
        })
        .await;
    assert!(matches!(pure, Err(OnceError::LeaseLost)));
    let ran = started.elapsed().as_secs();
    assert!((90..=150).contains(&ran), "{ran} s");
    let by_hand = begin(call(&engine, "by-hand")).await;
    sleep(50_000).await;
    assert!(by_hand.renew(&engine).await.unwrap().is_done());
    sleep(50_000).await;
    assert!(matches!(by_hand.renew(&engine).await.unwrap(), Stepped::Refused(Refused::PastMaxAttempt)));
    let unsafe_work = call(&engine, "unsafe").once(|_| async {
        sleep(500_000).await;
        Ok::<_, Failed>("end".to_owned())
    });
    assert_eq!(unsafe_work.await.unwrap().value, "end", "it runs to its end");
}

/// Admit first, start later: the effect's mark is a step of its own, and said twice it is so already.
#[tokio::test(start_paused = true)]
async fn begin_then_start_then_complete() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k").not_started()).await;
    assert!(matches!(ticket.start(&engine).await.unwrap(), Stepped::Done(done) if !done.already));
    assert!(matches!(ticket.start(&engine).await.unwrap(), Stepped::Done(done) if done.already));
    let too_late = ticket.release(&engine, Release::BeforeStart).await.unwrap();
    assert!(matches!(too_late, Stepped::Refused(Refused::AlreadyStarted)));
    assert!(ticket.complete(&engine, done("1")).await.unwrap().is_done());
}

/// The lease lapses before the start: the start is fenced, the owner releases, and the key is free.
#[tokio::test(start_paused = true)]
async fn a_start_after_the_lapse_is_fenced_and_then_released() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k").not_started()).await;
    sleep(61_000).await;
    assert!(matches!(ticket.start(&engine).await.unwrap(), Stepped::Fenced));
    assert!(ticket.release(&engine, Release::BeforeStart).await.unwrap().is_done());
    assert_eq!(pay(call(&engine, "k").fingerprint("other"), "v").await.unwrap().attempt, 1);
    assert!(matches!(ticket.start(&engine).await.unwrap(), Stepped::Fenced), "and stays fenced");
}

/// A renewal and the end cross: the end wins, whatever the order in which they are answered.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_crosses_the_end_changes_nothing() {
    let world = World::new();
    let engine = world.engine();
    for round in 0..50 {
        let ticket = begin(call(&engine, &format!("k{round}"))).await;
        let (renewed, ended) = if round % 2 == 0 {
            tokio::join!(ticket.renew(&engine), ticket.complete(&engine, done("1")))
        } else {
            let (ended, renewed) = tokio::join!(ticket.complete(&engine, done("1")), ticket.renew(&engine));
            (renewed, ended)
        };
        assert!(ended.unwrap().is_done());
        assert!(matches!(renewed.unwrap(), Stepped::Done(_) | Stepped::Fenced));
        assert_eq!(state(&engine, &ticket.id()).await, StateName::Committed);
    }
}

/// A renewal whose answer was lost is recognised; the lease runs from it.
#[tokio::test(start_paused = true)]
async fn a_lost_renewal_is_repeated() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k")).await;
    sleep(50_000).await;
    world.faulty.script(hapax_store::Fault::After);
    assert!(ticket.renew(&engine).await.unwrap().is_done());
    sleep(50_000).await;
    assert_eq!(state(&engine, &ticket.id()).await, StateName::Pending);
    assert!(ticket.complete(&engine, done("1")).await.unwrap().is_done());
    assert_eq!(engine.stats().late, 0);
}

/// A lease of no length, and one longer than the machine will live: neither panics nor runs twice.
#[tokio::test(start_paused = true)]
async fn leases_of_odd_lengths_do_no_harm() {
    let world = World::new();
    let engine = world.engine();
    for (key, lease) in [("nought", Millis(0)), ("one", Millis(1)), ("endless", Millis(u64::MAX))] {
        let given = soon(call(&engine, key).lease(lease).once(|_| async {
            sleep(100).await;
            Ok::<_, Failed>("v".to_owned())
        }))
        .await;
        assert_eq!(given.unwrap().value, "v", "{key}");
        assert!(never(call(&engine, key)).await.unwrap().replayed, "{key}");
    }
    let pure = call(&engine, "pure").effect(Effect::Pure).lease(Millis(u64::MAX));
    assert!(pay(pure, "v").await.is_ok());
}

/// The fence grows with each attempt and stays while one is renewed; the downstream key never changes.
#[tokio::test(start_paused = true)]
async fn fences_grow_and_downstream_keys_stay() {
    let world = World::new();
    let engine = world.engine();
    let mut before = None;
    let key = begin(call(&engine, "other")).await.downstream_key();
    for attempt in 1..=10 {
        let ticket = begin(call(&engine, "k").effect(Effect::Pure)).await;
        assert_eq!(ticket.attempt(), attempt);
        assert!(ticket.renew(&engine).await.unwrap().is_done());
        assert!(before < Some(ticket.fence()));
        assert_eq!(ticket.downstream_key(), hapax_engine::downstream_key(&ticket.id()));
        assert_ne!(ticket.downstream_key(), key);
        before = Some(ticket.fence());
        assert!(ticket.fail(&engine, retryable("no")).await.unwrap().is_done());
    }
}
