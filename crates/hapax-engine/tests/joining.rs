//! Duplicates of running work wait for its answer, cheaply, for a bounded time, and never run it themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use crate::support::*;
use hapax_core::{
    Effect, Millis, Verdict,
    command::Release,
    policy::{MismatchInFlight, OnInFlight, OnLapse},
};
use hapax_engine::{Begun, Call, Engine, OnceError, Settings, Wait};
use hapax_store::{Envelope, Fault, Store};
use tokio::{task::JoinHandle, time::Instant};

fn waiter(call: Call) -> JoinHandle<Given<String>> {
    tokio::spawn(never(call.wait(Wait::AtMost(Millis::from_secs(1_000)))))
}

async fn waiting(engine: &Engine, many: usize) {
    soon(async {
        while engine.waiting() < many {
            tokio::task::yield_now().await;
        }
    })
    .await;
    settle().await;
}

/// A hundred duplicates wait for one call: they get its value, marked as joined and replayed, over one subscription.
#[tokio::test(start_paused = true)]
async fn those_who_wait_get_the_final_outcome() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    let waiters: Vec<_> = (0..100).map(|_| waiter(call(&engine, "k"))).collect();
    waiting(&engine, 100).await;
    assert_eq!(world.store.watches.load(SeqCst), 1);
    let reads = world.store.gets.load(SeqCst);
    assert!(owner.complete(&engine, done("\"v\"")).await.unwrap().is_done());
    for waiter in waiters {
        let given = waiter.await.unwrap().unwrap();
        assert_eq!((given.value.as_str(), given.replayed, given.joined), ("v", true, true));
    }
    assert!(world.store.gets.load(SeqCst) <= reads + 2, "one read serves all");
    assert_eq!((engine.waiting(), engine.stats().joined), (0, 100));
    assert_eq!(engine.stats().executed, 1);
}

/// A joined final failure is a recorded answer.
#[tokio::test(start_paused = true)]
async fn a_joined_final_failure_is_a_replay() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    let waits = waiter(call(&engine, "k"));
    waiting(&engine, 1).await;
    assert!(owner.reject(&engine, refused("card refused")).await.unwrap().is_done());
    let told = waits.await.unwrap();
    assert!(matches!(told, Err(OnceError::Rejected { message, joined: true, .. }) if message == "card refused"));
}

/// The attempt failed retryably: those who waited are told so, as joined, and nobody runs it again by itself.
#[tokio::test(start_paused = true)]
async fn a_joined_retryable_failure_is_no_replay() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    let waiters: Vec<_> = (0..10).map(|_| waiter(call(&engine, "k"))).collect();
    waiting(&engine, 10).await;
    assert!(owner.fail(&engine, retryable("busy")).await.unwrap().is_done());
    for waiter in waiters {
        let told = waiter.await.unwrap();
        assert!(matches!(told, Err(OnceError::JoinedFailure { message }) if message == "busy"));
    }
    assert_eq!(pay(call(&engine, "k"), "v").await.unwrap().attempt, 2);
}

/// After a release: in flight, retry now.
#[tokio::test(start_paused = true)]
async fn after_a_release_those_who_waited_may_retry_now() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    let waits = waiter(call(&engine, "k"));
    waiting(&engine, 1).await;
    assert!(owner.release(&engine, Release::NoEffect).await.unwrap().is_done());
    assert!(matches!(waits.await.unwrap(), Err(OnceError::InFlight { retry_after: Millis::ZERO })));
}

/// A lapse writes nothing, and still wakes: in doubt for unsafe work, in flight (retry now) for what may run again.
#[tokio::test(start_paused = true)]
async fn those_who_wait_wake_at_the_end_of_the_lease() {
    for effect in Effect::ALL {
        let world = World::new();
        let engine = world.engine();
        let _owner = begin(call(&engine, "k").effect(effect)).await;
        let started = Instant::now();
        let told = waiter(call(&engine, "k").effect(effect)).await.unwrap();
        let waited = started.elapsed();
        assert!(waited >= Duration::from_secs(59) && waited < Duration::from_secs(62), "{waited:?}");
        if effect.may_rerun() {
            assert!(matches!(told, Err(OnceError::InFlight { retry_after: Millis::ZERO })), "{told:?}");
        } else {
            assert!(matches!(told, Err(OnceError::InDoubt { .. })), "{told:?}");
        }
    }
}

/// A renewed lease is waited for as long as it is renewed.
#[tokio::test(start_paused = true)]
async fn those_who_wait_follow_a_renewal() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    let waits = waiter(call(&engine, "k"));
    for _ in 0..5 {
        sleep(50_000).await;
        assert!(owner.renew(&engine).await.unwrap().is_done());
    }
    assert_eq!(engine.waiting(), 1);
    assert!(owner.complete(&engine, done("\"v\"")).await.unwrap().is_done());
    assert!(waits.await.unwrap().is_ok());
}

/// A stale attempt stays pending after its lease: whoever waits is told in flight at its own deadline, and no sooner.
#[tokio::test(start_paused = true)]
async fn a_stale_attempt_is_waited_for_until_the_deadline() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.on_lapse = [Some(OnLapse::Stale); 5]));
    let owner = begin(call(&engine, "k")).await;
    let started = Instant::now();
    let told = never(call(&engine, "k").wait(Wait::AtMost(Millis::from_secs(100)))).await;
    assert!(matches!(told, Err(OnceError::InFlight { .. })));
    assert_eq!(started.elapsed().as_secs(), 100);
    assert!(owner.complete(&engine, done("\"v\"")).await.unwrap().is_done());
}

/// Nobody outlives its own deadline: neither the policy's nor one that the caller brings.
#[tokio::test(start_paused = true)]
async fn nobody_outlives_its_own_deadline() {
    let world = World::new();
    let engine = world.engine();
    let _owner = begin(call(&engine, "k")).await;
    for (wait, millis) in [(Wait::AsPolicy, 10_000), (Wait::AtMost(Millis(250)), 250), (Wait::No, 0)] {
        let started = Instant::now();
        let told = never(call(&engine, "k").wait(wait)).await;
        assert!(matches!(told, Err(OnceError::InFlight { .. })));
        let waited = started.elapsed().as_millis();
        assert!(waited >= millis && waited < millis + 5, "{wait:?}: {waited} ms");
    }
    let rejects = world.engine_with(policy(|policy| policy.on_in_flight = OnInFlight::Reject));
    let started = Instant::now();
    assert!(matches!(never(call(&rejects, "k")).await, Err(OnceError::InFlight { .. })));
    assert_eq!(started.elapsed().as_millis(), 0);
}

/// It ends, and its long answer lies beside the record in a store that does not give it: the deadline holds all the same.
#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_does_not_prolong_a_wait() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.capture.inline = 10));
    let owner = begin(call(&engine, "k")).await;
    let started = Instant::now();
    let waits = tokio::spawn(never(call(&engine, "k").wait(Wait::AtMost(Millis::from_secs(3)))));
    waiting(&engine, 1).await;
    world.store.bodies_are_silent();
    assert!(owner.complete(&engine, done("\"more than ten bytes\"")).await.unwrap().is_done());
    assert!(matches!(waits.await.unwrap(), Err(OnceError::InFlight { .. })));
    assert_eq!(started.elapsed().as_secs(), 3);
}

/// The store falls silent while somebody waits: the deadline holds all the same.
#[tokio::test(start_paused = true)]
async fn a_silent_store_does_not_prolong_a_wait() {
    let world = World::new();
    let engine = world.engine();
    let _owner = begin(call(&engine, "k")).await;
    let started = Instant::now();
    let waits = tokio::spawn(never(call(&engine, "k").wait(Wait::AtMost(Millis::from_secs(3)))));
    sleep(1_000).await;
    world.store.mood(Mood::Silent);
    assert!(matches!(waits.await.unwrap(), Err(OnceError::InFlight { .. })));
    assert_eq!(started.elapsed().as_secs(), 3);
}

/// Too many wait for one operation, or in all: the next is told at once.
#[tokio::test(start_paused = true)]
async fn the_number_of_waiters_is_bounded() {
    let world = World::new();
    let small = Settings { waiters_per_key: 3, waiters: 5, waiters_share: 1, ..settings() };
    let engine = world.builder().settings(small).build().unwrap();
    let (one, two) = (begin(call(&engine, "one")).await, begin(call(&engine, "two")).await);
    let mut waiters: Vec<_> = (0..3).map(|_| waiter(call(&engine, "one"))).collect();
    waiting(&engine, 3).await;
    assert!(matches!(never(call(&engine, "one")).await, Err(OnceError::InFlight { .. })));
    waiters.extend((0..2).map(|_| waiter(call(&engine, "two"))));
    waiting(&engine, 5).await;
    assert!(matches!(never(call(&engine, "two")).await, Err(OnceError::InFlight { .. })), "five wait in all");
    assert_eq!(engine.waiting(), 5);
    for owner in [one, two] {
        assert!(owner.complete(&engine, done("\"v\"")).await.unwrap().is_done());
    }
    for waiter in waiters {
        assert!(waiter.await.unwrap().is_ok());
    }
    assert_eq!(engine.waiting(), 0);
}

/// One tenant waits as often as it can. The places of the others are left.
#[tokio::test(start_paused = true)]
async fn one_tenant_cannot_take_all_waiting_places() {
    let world = World::new();
    let small = Settings { waiters: 6, ..settings() };
    let engine = world.builder().settings(small).build().unwrap();
    let of = |tenant: &str, surface: &str| engine.surface(surface).tenant(tenant).key("k");
    let mut owners = Vec::new();
    for tenant in ["busy", "other"] {
        for surface in ["pay", "ship"] {
            owners.push(begin(of(tenant, surface)).await);
        }
    }
    let mut waiters: Vec<_> = ["pay", "ship", "pay"].map(|surface| waiter(of("busy", surface))).into();
    waiting(&engine, 3).await;
    for surface in ["pay", "ship"] {
        let before = Instant::now();
        assert!(matches!(never(of("busy", surface)).await, Err(OnceError::InFlight { .. })));
        assert_eq!(before.elapsed().as_millis(), 0, "it has its share");
    }
    waiters.push(waiter(of("other", "pay")));
    waiting(&engine, 4).await;
    for owner in owners {
        assert!(owner.complete(&engine, done("\"v\"")).await.unwrap().is_done());
    }
    for waiter in waiters {
        assert!(waiter.await.unwrap().is_ok());
    }
    assert_eq!(engine.waiting(), 0);
}

/// A waiter that gives up after ten seconds of a lease of sixty is told to come back in fifty, or later if the lease was
/// renewed meanwhile; told what held when it came, it would come back for nothing, or late.
#[tokio::test(start_paused = true)]
async fn whoever_gives_up_waiting_is_told_how_long_it_is_from_now_on() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    let told = never(call(&engine, "k")).await;
    assert!(matches!(told, Err(OnceError::InFlight { retry_after }) if retry_after == Millis(50_000)), "{told:?}");
    let waiting = tokio::spawn(never(call(&engine, "k")));
    sleep(4_000).await;
    assert!(owner.renew(&engine).await.unwrap().is_done());
    let told = waiting.await.unwrap();
    assert!(matches!(told, Err(OnceError::InFlight { retry_after }) if retry_after == Millis(54_000)), "{told:?}");
}

/// The subscription cannot be set up at first: it is tried again, and the answer still arrives.
#[tokio::test(start_paused = true)]
async fn a_failed_subscription_is_tried_again() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    world.store.watches_fail(true);
    let waits = waiter(call(&engine, "k"));
    sleep(500).await;
    world.store.watches_fail(false);
    sleep(2_000).await;
    assert!(owner.complete(&engine, done("\"v\"")).await.unwrap().is_done());
    assert!(waits.await.unwrap().unwrap().joined);
}

/// It stays impossible: whoever waits is told in flight at its deadline, and the keeper goes when nobody waits.
#[tokio::test(start_paused = true)]
async fn a_subscription_that_never_works_ends_with_its_waiters() {
    let world = World::new();
    let engine = world.engine();
    let _owner = begin(call(&engine, "k")).await;
    world.store.watches_fail(true);
    let told = never(call(&engine, "k").wait(Wait::AtMost(Millis::from_secs(5)))).await;
    assert!(matches!(told, Err(OnceError::InFlight { .. })));
    sleep(5_000).await;
    let tried = world.store.watches.load(SeqCst);
    sleep(60_000).await;
    assert_eq!(world.store.watches.load(SeqCst), tried, "nobody waits, so nobody asks");
}

/// The record cannot be read while somebody waits: no busy loop, and once the waiter is gone nobody asks any more.
#[tokio::test(start_paused = true)]
async fn a_damaged_record_keeps_nobody_busy() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    let waits = tokio::spawn(never(call(&engine, "k").wait(Wait::AtMost(Millis::from_secs(5)))));
    waiting(&engine, 1).await;
    let stored = world.stored(&owner.id()).await;
    let mut damaged: Envelope = stored.record.unwrap();
    damaged.payload = bytes::Bytes::from_static(b"not a record");
    let _written = world.memory.swap(&owner.id(), stored.version, Some(damaged)).await.unwrap();
    // Without a yield in the keeper's loop this never returns.
    assert!(soon(waits).await.unwrap().is_err());
    sleep(5_000).await;
    let before = world.store.calls();
    sleep(60_000).await;
    assert_eq!(world.store.calls(), before, "nobody waits, so nobody asks");
}

/// The store goes away under those who wait, and they leave: whoever kept the board goes as well.
#[tokio::test(start_paused = true)]
async fn nobody_keeps_asking_a_dead_store_for_waiters_that_left() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    let waits = tokio::spawn(call(&engine, "k").wait(Wait::AtMost(Millis::from_secs(1_000))).begin());
    waiting(&engine, 1).await;
    world.store.mood(Mood::Down);
    // Wakes the keeper, which then meets the dead store.
    let stored = world.stored(&owner.id()).await;
    let _touched = world.memory.swap(&owner.id(), stored.version, stored.record).await.unwrap();
    sleep(1_000).await;
    waits.abort();
    sleep(10_000).await;
    let before = world.store.calls();
    sleep(60_000).await;
    assert_eq!(world.store.calls(), before);
}

/// A duplicate with another request is told so, at once and also when it had to wait.
#[tokio::test(start_paused = true)]
async fn a_waiter_with_another_request_is_a_mismatch() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.mismatch_in_flight = Some(MismatchInFlight::InFlight)));
    let owner = begin(call(&engine, "k").fingerprint("a")).await;
    let waits = waiter(call(&engine, "k").fingerprint("b"));
    waiting(&engine, 1).await;
    assert!(owner.complete(&engine, done("\"a's\"")).await.unwrap().is_done());
    assert!(matches!(waits.await.unwrap(), Err(OnceError::Mismatch)));
    let engine = world.engine();
    let _owner = begin(call(&engine, "other").fingerprint("a")).await;
    let told = call(&engine, "other").fingerprint("b").begin().await.unwrap();
    assert!(matches!(told, Begun::Told(Verdict::Mismatch)));
}

/// The last waiter leaves just as another comes: the newcomer is served, whoever took the board down.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_board_taken_down_under_a_newcomer_serves_it_all_the_same() {
    let world = World::new();
    let engine = world.engine();
    for round in 0..200 {
        let key = format!("k{round}");
        let owner = begin(call(&engine, &key)).await;
        let mut tasks = tokio::task::JoinSet::new();
        for at in 0..8_u64 {
            let duplicate = call(&engine, &key).wait(Wait::AtMost(Millis::from_secs(20)));
            tasks.spawn(async move {
                let waits = tokio::spawn(duplicate.begin());
                for _ in 0..at * 3 {
                    tokio::task::yield_now().await;
                }
                if at % 2 == 0 {
                    waits.abort();
                    let _ = waits.await;
                    return true;
                }
                matches!(waits.await.unwrap().unwrap(), Begun::Replay(_))
            });
        }
        tokio::task::yield_now().await;
        assert!(owner.complete(&engine, done("1")).await.unwrap().is_done());
        while let Some(served) = soon(tasks.join_next()).await {
            assert!(served.unwrap(), "round {round}: a waiter was not served");
        }
    }
    assert_eq!(engine.waiting(), 0);
}

/// A completion in another process reaches those who wait here.
#[tokio::test(start_paused = true)]
async fn a_completion_elsewhere_wakes_those_who_wait_here() {
    let world = World::new();
    let (here, there) = (world.engine(), world.engine());
    let owner = begin(call(&there, "k")).await;
    let waits = waiter(call(&here, "k"));
    waiting(&here, 1).await;
    assert!(there.complete(&owner.id(), owner.token(), done("\"v\"")).await.unwrap().is_done());
    assert_eq!(soon(waits).await.unwrap().unwrap().value, "v");
}

/// One read in between is lost: those who wait do not notice.
#[tokio::test(start_paused = true)]
async fn a_lost_read_while_waiting_is_read_again() {
    let world = World::new();
    let engine = world.engine();
    let owner = begin(call(&engine, "k")).await;
    let waits = waiter(call(&engine, "k"));
    waiting(&engine, 1).await;
    world.faulty.script(Fault::LostRead);
    assert!(owner.complete(&engine, done("\"v\"")).await.unwrap().is_done());
    assert_eq!(soon(waits).await.unwrap().unwrap().value, "v");
}
