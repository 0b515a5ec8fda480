//! Futures that are dropped half-way: whoever goes away must not leave a key behind that nobody owns.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use crate::support::*;
use hapax_core::{StateName, Version, command::Release};
use hapax_engine::{Begun, Wait};
use hapax_store::Store;

/// A caller's `select!` drops `begin` after the write has landed and before the answer is there. Nobody saw a ticket,
/// so nothing ran; the key must not be in doubt a minute later.
#[tokio::test(start_paused = true)]
async fn a_begin_dropped_after_its_write_is_taken_back() {
    let world = World::new();
    let engine = world.engine();
    let held = world.store.hold_swaps();
    let dropped = tokio::time::timeout(Duration::from_millis(50), call(&engine, "k").begin()).await;
    assert!(dropped.is_err(), "the answer is held back");
    assert!(world.stored(&id(&engine, "k")).await.record.is_some(), "the write has landed");
    world.store.hold_nothing();
    held.add_permits(100);
    sleep(1_000).await;
    assert!(world.stored(&id(&engine, "k")).await.record.is_none(), "nobody owns it, so it is taken back");
    assert!(pay(call(&engine, "k"), "paid").await.is_ok());
}

/// The same, on a thread that no runtime knows: a future can be dropped anywhere.
#[test]
fn a_begin_dropped_outside_of_any_runtime_is_taken_back() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let world = World::new();
    let engine = world.engine();
    let held = world.store.hold_swaps();
    let mut begin = Box::pin(call(&engine, "k").begin());
    runtime.block_on(async {
        let early = tokio::time::timeout(Duration::from_millis(50), begin.as_mut()).await;
        assert!(early.is_err(), "the answer is held back");
    });
    drop(begin);
    world.store.hold_nothing();
    held.add_permits(100);
    let taken_back = async {
        while world.stored(&id(&engine, "k")).await.record.is_some() {
            sleep(5).await;
        }
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), taken_back).await.unwrap() });
}

/// The same, but the write is still on its way when the caller goes: it must not land behind its back.
#[tokio::test(start_paused = true)]
async fn a_begin_dropped_with_its_write_in_flight_cannot_land_later() {
    let world = World::new();
    let engine = world.engine();
    assert!(pay(call(&engine, "first"), "x").await.is_ok());
    world.store.mood(Mood::Silent);
    let dropped = tokio::time::timeout(Duration::from_millis(50), call(&engine, "k").begin()).await;
    assert!(dropped.is_err());
    world.store.mood(Mood::Well);
    sleep(10_000).await;
    let absent = world.stored(&id(&engine, "k")).await;
    assert!(absent.record.is_none());
    assert!(absent.version > Version::NEVER, "absence has moved on, so that the late write only conflicts");
}

/// A waiter that goes away had sent a write that only conflicted: there is nothing to take back, and nothing is asked.
#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_costs_the_store_nothing() {
    let world = World::new();
    let engine = world.engine();
    let _owner = begin(call(&engine, "k")).await;
    let waits = tokio::spawn(call(&engine, "k").begin());
    sleep(10).await;
    let before = world.store.calls();
    waits.abort();
    sleep(100).await;
    assert_eq!(world.store.calls(), before);
    assert_eq!(engine.stats().disowned, 0);
}

/// `once` is dropped by its caller: the effect goes on and its outcome is recorded.
#[tokio::test(start_paused = true)]
async fn once_goes_on_when_its_caller_goes_away() {
    let world = World::new();
    let engine = world.engine();
    let slow = call(&engine, "k").once(|_| async {
        sleep(500).await;
        Ok::<_, Failed>(7)
    });
    assert!(tokio::time::timeout(Duration::from_millis(10), slow).await.is_err());
    sleep(1_000).await;
    let again = call(&engine, "k").once(|_| async { Ok::<_, Failed>(8) }).await.unwrap();
    assert_eq!((again.value, again.replayed), (7, true));
}

/// `once_inline` is dropped in the middle of an unsafe effect: that lapses, into doubt and not into a second run.
#[tokio::test(start_paused = true)]
async fn once_inline_dropped_half_way_lapses_into_doubt() {
    let world = World::new();
    let engine = world.engine();
    let slow = call(&engine, "k").once_inline(|_| async {
        sleep(500).await;
        Ok::<_, Failed>("x".to_owned())
    });
    assert!(tokio::time::timeout(Duration::from_millis(10), slow).await.is_err());
    assert!(matches!(never(call(&engine, "k").wait(Wait::No)).await, Err(hapax_engine::OnceError::InFlight { .. })));
    sleep(61_000).await;
    assert!(matches!(never(call(&engine, "k")).await, Err(hapax_engine::OnceError::InDoubt { .. })));
}

/// A waiter is dropped in the middle of its wait: the owner and the other waiters never notice.
#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_disturbs_nobody() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    let stays = tokio::spawn(call(&engine, "k").begin());
    let goes = tokio::spawn(call(&engine, "k").begin());
    sleep(10).await;
    assert_eq!(engine.waiting(), 2);
    goes.abort();
    sleep(10).await;
    assert_eq!(engine.waiting(), 1);
    assert!(owner.complete(&engine, done("1")).await.unwrap().is_done());
    let Begun::Replay(replayed) = stays.await.unwrap().unwrap() else { panic!("not replayed") };
    assert!(replayed.joined);
    assert_eq!(engine.waiting(), 0);
}

/// A completion is dropped after its write: saying it again is harmless, and saying something else is refused.
#[tokio::test(start_paused = true)]
async fn a_dropped_completion_can_be_said_again() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k")).await;
    let held = world.store.hold_swaps();
    let dropped = tokio::time::timeout(Duration::from_millis(50), ticket.complete(&engine, done("1"))).await;
    assert!(dropped.is_err());
    world.store.hold_nothing();
    held.add_permits(10);
    let again = ticket.complete(&engine, done("1")).await.unwrap();
    assert!(matches!(again, hapax_engine::Stepped::Done(done) if done.already));
    let other = ticket.complete(&engine, done("2")).await.unwrap();
    assert!(matches!(other, hapax_engine::Stepped::Conflict(_)));
}

/// A dropped release has happened or not; repeated it is ok either way, and the key is free.
#[tokio::test(start_paused = true)]
async fn a_dropped_release_can_be_said_again() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k").not_started()).await;
    let held = world.store.hold_swaps();
    let release = ticket.release(&engine, Release::BeforeStart);
    assert!(tokio::time::timeout(Duration::from_millis(50), release).await.is_err());
    world.store.hold_nothing();
    held.add_permits(10);
    assert!(ticket.release(&engine, Release::BeforeStart).await.unwrap().is_done());
    assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent);
    assert!(world.memory.now().is_some());
}
