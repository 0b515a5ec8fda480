//! What several processes on one store settle among themselves.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use crate::support::{World, call, never, pay, policy, settings, sleep};
use hapax_core::{Effect, Millis, RefusalReason, Span, identity::Secret, policy::Treatment};
use hapax_engine::{Engine, EngineError, OnceError, Settings};
use hapax_store::{Durability, Store};

const CLAIM: Duration = Duration::from_secs(45);

fn shared() -> World {
    let world = World::new();
    world.store.pretend_shared();
    world
}

/// Short windows, and slices so small that a pass has many of them.
fn engine(world: &World) -> Engine {
    let short = policy(|policy| {
        policy.success = Span::For(Millis::from_secs(60));
        policy.final_failure = Treatment::Replay(policy.success);
    });
    let settings = Settings { sweep_slice: 8, sweep_claim: CLAIM, ..settings() };
    world.builder().policy("pay", short).settings(settings).build().unwrap()
}

async fn fill(engine: &Engine, records: usize) {
    for record in 0..records {
        pay(call(engine, &format!("k{record}")), "done").await.unwrap();
    }
    sleep(61_000).await;
}

/// Ten processes that all sweep do ten times the work of one, on the store that all of them wait for.
#[tokio::test(start_paused = true)]
async fn two_processes_do_not_both_sweep() {
    let world = shared();
    let (one, other) = (engine(&world), engine(&world));
    fill(&one, 100).await;
    let (first, second) = tokio::join!(one.sweep(), other.sweep());
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.written + second.written, 100);
    assert_eq!(first.looked_at + second.looked_at, 100, "nothing was looked at twice: {first:?} {second:?}");
    assert_eq!(first.written.min(second.written), 0, "one did all of it");
    assert!(first.elsewhere || second.elsewhere);
    // Who has a range keeps it, without a write for every pass.
    let before = world.store.swaps.load(SeqCst);
    for _ in 0..3 {
        let (one, other) = (one.sweep().await.unwrap(), other.sweep().await.unwrap());
        assert!(one.elsewhere || other.elsewhere);
    }
    assert_eq!(world.store.swaps.load(SeqCst), before);
}

/// The process that sweeps is killed. What expires after that must not stay for ever.
#[tokio::test(start_paused = true)]
async fn a_dead_sweeper_is_replaced() {
    let world = shared();
    let (dead, heir) = (engine(&world), engine(&world));
    assert!(!dead.sweep().await.unwrap().elsewhere);
    fill(&dead, 10).await;
    assert!(!dead.sweep().await.unwrap().elsewhere);
    drop(dead);
    fill(&heir, 10).await;
    assert!(CLAIM < Duration::from_secs(61));
    let swept = heir.sweep().await.unwrap();
    assert_eq!((swept.elsewhere, swept.written), (false, 10));
    assert!(engine(&world).sweep().await.unwrap().elsewhere, "and has it now");
}

/// A pass over a million records takes longer than a claim lasts. Who is still at it must not be taken for dead.
#[tokio::test(start_paused = true)]
async fn a_long_pass_keeps_its_claim() {
    let world = shared();
    let (slow, other) = (engine(&world), engine(&world));
    fill(&slow, 64).await;
    let gets = world.store.hold_gets();
    let pass = tokio::spawn({
        let slow = slow.clone();
        async move { slow.sweep().await }
    });
    // Each read takes two seconds: the pass lasts for three claims.
    let feeding = tokio::spawn(async move {
        loop {
            sleep(2_000).await;
            gets.add_permits(1);
        }
    });
    let mut turned_away = 0;
    while !pass.is_finished() {
        sleep(20_000).await;
        // Its own read stands in the same line.
        match tokio::time::timeout(Duration::from_secs(4_000), other.sweep()).await.unwrap() {
            Ok(swept) if !pass.is_finished() => {
                assert!(swept.elsewhere, "it was taken for dead: {swept:?}");
                turned_away += 1;
            }
            Ok(_) | Err(_) => {}
        }
    }
    feeding.abort();
    assert_eq!(pass.await.unwrap().unwrap().written, 64);
    assert!(turned_away > 2, "{turned_away}");
}

/// A Redis that syncs once a second forgets a charge in a crash, and the retry charges again.
#[tokio::test(start_paused = true)]
async fn a_store_that_may_forget_runs_nothing_that_does_harm_twice() {
    let world = shared();
    world.store.pretend_to_promise(Durability::BestEffort("appendfsync is everysec".into()));
    let strict = world.engine();
    for effect in [Effect::Compensatable, Effect::Irreversible, Effect::Unsafe] {
        let told = never(call(&strict, effect.name()).effect(effect)).await.unwrap_err();
        let OnceError::Refused(refusal) = told else { panic!("{told}") };
        assert_eq!(refusal.reason, RefusalReason::Forgetful);
        let id = call(&strict, effect.name()).id().unwrap();
        assert_eq!(world.stored(&id).await.record, None, "a refusal leaves nothing behind");
    }
    for effect in [Effect::Pure, Effect::Idempotent] {
        pay(call(&strict, effect.name()).effect(effect), "done").await.unwrap();
    }
    // Allowed by name, it runs; and what is recorded is given to everybody.
    let lax = world.engine_with(policy(|policy| policy.best_effort[Effect::Unsafe as usize] = true));
    pay(call(&lax, "unsafe").effect(Effect::Unsafe), "done").await.unwrap();
    assert!(never(call(&lax, "irreversible").effect(Effect::Irreversible)).await.is_err());
    let again = never(call(&strict, "unsafe").effect(Effect::Unsafe)).await.unwrap();
    assert!(again.replayed);
}

/// What goes with its process is chosen for that, and what is durable under a condition says which.
#[tokio::test(start_paused = true)]
async fn only_a_shared_store_of_best_effort_refuses() {
    let world = World::new();
    assert!(matches!(world.store.durability(), Durability::BestEffort(_)));
    pay(call(&world.engine(), "memory"), "done").await.unwrap();
    world.store.pretend_shared();
    world.store.pretend_to_promise(Durability::DurableIf("nobody fails over".into()));
    pay(call(&world.engine(), "standbys"), "done").await.unwrap();
}

/// Two gateways with secrets of their own make two tenants of one credential, and the same key runs in both.
#[tokio::test(start_paused = true)]
async fn another_secret_is_found_out_before_anything_runs() {
    let world = shared();
    let with = |byte: u8| world.builder().secret(Secret::new(&[byte; 32]).unwrap()).build().unwrap();
    with(1).agree_on_secret().await.unwrap();
    with(1).agree_on_secret().await.unwrap();
    let refused = with(2).agree_on_secret().await.unwrap_err();
    assert!(matches!(refused, EngineError::OtherSecret { .. }), "{refused}");
    assert!(refused.to_string().contains("HX0133"));
    with(1).agree_on_secret().await.unwrap();
}
