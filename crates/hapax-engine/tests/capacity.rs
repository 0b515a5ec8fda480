//! Room to keep and room to run: bounded, by tenant, and never at the cost of an answer that was promised.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{sync::Arc, time::Duration};

use crate::support::*;
use hapax_core::{
    Effect, Millis, Outcome, OutcomeClass, Policy, RefusalReason, Span, StateName,
    identity::Surface,
    policy::{Admission, Capacity, OnFull},
};
use hapax_engine::{Call, Engine, OnceError, Policies, Wait};

fn at_most(max_records: u64, per_tenant: u64, on_full: OnFull) -> Policy {
    policy(|policy| {
        policy.capacity =
            Capacity { max_records, per_tenant, max_tombstones: max_records * 10, bytes_per_tenant: None, on_full };
    })
}

fn of(engine: &Engine, tenant: &str, key: usize) -> Call {
    engine.surface("pay").tenant(tenant).key(format!("k{key}")).effect(Effect::Idempotent)
}

fn quota(given: &Given<String>) -> bool {
    matches!(given, Err(OnceError::Refused(refusal)) if refusal.reason == RefusalReason::Quota)
}

fn admission(given: &Given<String>) -> bool {
    matches!(given, Err(OnceError::Refused(refusal)) if refusal.reason == RefusalReason::Admission)
}

/// The surface is full: new work is refused at exactly the limit, leaves nothing, and runs once there is room again.
#[tokio::test(start_paused = true)]
async fn new_work_is_refused_at_exactly_the_limit() {
    let world = World::new();
    let mut policy = at_most(3, 3, OnFull::RejectNew);
    policy.success = Span::For(Millis::from_secs(100));
    let engine = world.engine_with(policy);
    for key in 0..3 {
        assert!(pay(of(&engine, "acme", key), "v").await.is_ok());
    }
    for key in 3..6 {
        assert!(quota(&never(of(&engine, "acme", key)).await));
        assert!(world.stored(&of(&engine, "acme", key).id().unwrap()).await.record.is_none());
    }
    sleep(101_000).await;
    engine.sweep().await.unwrap();
    assert!(pay(of(&engine, "acme", 3), "v").await.is_ok());
}

/// A retry of something that was done comes while the surface is full, in a process that has not got it at hand. It
/// needs no room: it is answered, and nothing is evicted for it.
#[tokio::test(start_paused = true)]
async fn a_duplicate_at_full_capacity_is_answered_and_evicts_nothing() {
    for on_full in [OnFull::RejectNew, OnFull::EvictOldestFinal] {
        let world = World::new();
        let engine = world.engine_with(at_most(2, 2, on_full));
        assert!(pay(of(&engine, "acme", 0), "a").await.is_ok());
        assert!(pay(of(&engine, "acme", 1), "b").await.is_ok());
        let elsewhere = world.engine_with(at_most(2, 2, on_full));
        for (key, value) in [(1, "b"), (0, "a")] {
            let again = never(of(&elsewhere, "acme", key)).await.unwrap();
            assert_eq!((again.value.as_str(), again.replayed), (value, true), "{on_full:?}");
        }
        assert_eq!(elsewhere.stats().evicted, 0);
    }
}

/// A duplicate of running work at full capacity joins it, and one in doubt is told so: neither needs a record.
#[tokio::test(start_paused = true)]
async fn full_capacity_hides_no_other_verdict() {
    let world = World::new();
    let engine = world.engine_with(at_most(1, 1, OnFull::RejectNew));
    let owner = begin(call(&engine, "k").fingerprint("a")).await;
    let elsewhere = world.engine_with(at_most(1, 1, OnFull::RejectNew));
    assert!(matches!(never(call(&elsewhere, "k").wait(Wait::No)).await, Err(OnceError::InFlight { .. })));
    assert!(matches!(never(call(&elsewhere, "k").fingerprint("b")).await, Err(OnceError::Mismatch)));
    sleep(61_000).await;
    assert!(matches!(never(call(&elsewhere, "k")).await, Err(OnceError::InDoubt { .. })));
    assert!(owner.complete(&engine, done("\"x\"")).await.unwrap().is_done());
    assert!(never(call(&elsewhere, "k")).await.unwrap().replayed);
}

/// Sixty-four callers race for the last places: not one record more than allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_limit_is_exact_under_concurrency() {
    for round in 0..5 {
        let world = World::new();
        let engine = world.engine_with(at_most(20, 20, OnFull::RejectNew));
        let mut tasks = tokio::task::JoinSet::new();
        for key in 0..64 {
            tasks.spawn(pay(of(&engine, "acme", key), "v"));
        }
        let mut kept = 0;
        while let Some(given) = tasks.join_next().await {
            let given = given.unwrap();
            assert!(given.is_ok() || quota(&given), "{given:?}");
            kept += usize::from(given.is_ok());
        }
        assert!(kept <= 20, "round {round}: {kept} records");
        // Whoever was refused while others were still deciding finds room now, until exactly the limit.
        for key in 100..200 {
            kept += usize::from(pay(of(&engine, "acme", key), "v").await.is_ok());
        }
        assert_eq!(kept, 20, "round {round}");
    }
}

/// One tenant fills its share: it is refused, its neighbour is not.
#[tokio::test(start_paused = true)]
async fn one_tenant_cannot_fill_the_surface() {
    let world = World::new();
    let engine = world.engine_with(at_most(100, 4, OnFull::RejectNew));
    for key in 0..4 {
        assert!(pay(of(&engine, "greedy", key), "v").await.is_ok());
    }
    assert!(quota(&never(of(&engine, "greedy", 4)).await));
    for key in 0..4 {
        assert!(pay(of(&engine, "modest", key), "v").await.is_ok());
    }
}

/// Eviction takes the oldest final record of the tenant that asks, never another's.
#[tokio::test(start_paused = true)]
async fn eviction_takes_the_oldest_of_the_tenant_that_asks() {
    let world = World::new();
    let engine = world.engine_with(at_most(100, 3, OnFull::EvictOldestFinal));
    for key in 0..3 {
        assert!(pay(of(&engine, "other", key), "o").await.is_ok());
    }
    for key in 0..5 {
        assert!(pay(of(&engine, "acme", key), "v").await.is_ok());
    }
    for key in 0..3 {
        assert!(!pay(of(&engine, "other", key), "again").await.unwrap().value.contains("again"));
    }
    for key in 0..2 {
        assert!(matches!(never(of(&engine, "acme", key)).await, Err(OnceError::AlreadyCompleted { .. })));
    }
    for key in 2..5 {
        assert!(never(of(&engine, "acme", key)).await.unwrap().replayed);
    }
}

/// C1. Complete applied, reply lost; the record is evicted; another begin would execute again. It does not: what was
/// evicted answers that it was completed, with the digest, until its original retention ends.
#[tokio::test(start_paused = true)]
async fn c1_an_evicted_answer_still_says_that_it_was_done() {
    let world = World::new();
    let engine = world.engine_with(at_most(1, 1, OnFull::EvictOldestFinal));
    let first = begin(of(&engine, "acme", 0)).await;
    world.faulty.script(hapax_store::Fault::After);
    assert!(first.complete(&engine, done("\"paid\"")).await.unwrap().is_done());
    assert!(pay(of(&engine, "acme", 1), "v").await.is_ok());
    assert_eq!(state(&engine, &first.id()).await, StateName::Tombstone);
    let digest = done("\"paid\"").digest();
    let again = never(of(&engine, "acme", 0)).await;
    assert!(matches!(again, Err(OnceError::AlreadyCompleted { digest: named, .. }) if named == digest), "{again:?}");
    // The owner that never saw the answer says it again: it is so already.
    let repeated = first.complete(&engine, done("\"paid\"")).await.unwrap();
    assert!(matches!(repeated, hapax_engine::Stepped::Done(done) if done.already));
    sleep(86_300_000).await;
    assert!(matches!(never(of(&engine, "acme", 0)).await, Err(OnceError::AlreadyCompleted { .. })));
    sleep(200_000).await;
    assert!(pay(of(&engine, "acme", 0), "a new one").await.is_ok(), "its window ended when it always would have");
}

/// Everything that is kept is live: eviction finds nothing to take, and the newcomer is refused instead.
#[tokio::test(start_paused = true)]
async fn live_work_is_never_evicted() {
    let world = World::new();
    let engine = world.engine_with(at_most(2, 2, OnFull::EvictOldestFinal));
    let pending = begin(of(&engine, "acme", 0)).await;
    let doubtful = begin(call(&engine, "doubtful")).await;
    sleep(30_000).await;
    assert!(pending.renew(&engine).await.unwrap().is_done());
    sleep(31_000).await;
    assert!(quota(&never(of(&engine, "acme", 2)).await));
    assert_eq!(state(&engine, &pending.id()).await, StateName::Pending);
    assert_eq!(state(&engine, &doubtful.id()).await, StateName::InDoubt);
}

/// A tenant is full of what failed and may be tried again, which nobody may evict. It is refused without a search through
/// all of it each time; as soon as something has ended here, or a moment later if it ended elsewhere, there is room.
#[tokio::test(start_paused = true)]
async fn a_tenant_full_of_what_must_be_kept_finds_room_once_something_has_ended() {
    let world = World::new();
    let full = || at_most(1_000, 100, OnFull::EvictOldestFinal);
    let (engine, elsewhere) = (world.engine_with(full()), world.engine_with(full()));
    for key in 0..100 {
        let ticket = begin(of(&engine, "acme", key)).await;
        assert!(
            ticket
                .fail(&engine, Outcome { class: OutcomeClass::RetryableFailure, ..done("busy") })
                .await
                .unwrap()
                .is_done()
        );
    }
    for key in 100..110 {
        assert!(quota(&never(of(&engine, "acme", key)).await));
    }
    assert!(pay(of(&engine, "acme", 50), "at last").await.is_ok());
    assert!(pay(of(&engine, "acme", 100), "in its place").await.is_ok());
    assert!(matches!(never(of(&engine, "acme", 50)).await, Err(OnceError::AlreadyCompleted { .. })));
    assert!(pay(of(&engine, "acme", 101), "in the next one's").await.is_ok());
    // Now the other way: what ends elsewhere is found a moment later.
    let engine = world.engine_with(full());
    let ticket = begin(of(&elsewhere, "acme", 102)).await;
    assert!(quota(&never(of(&engine, "acme", 103)).await), "all the others failed, and this one is under way");
    assert!(ticket.complete(&elsewhere, done("v")).await.unwrap().is_done());
    sleep(1_000).await;
    assert!(pay(of(&engine, "acme", 103), "v").await.is_ok());
    assert_eq!(state(&engine, &of(&engine, "acme", 102).id().unwrap()).await, StateName::Tombstone);
}

/// Tombstones are bounded too: once they are full, new work is refused, and nothing is evicted in vain.
#[tokio::test(start_paused = true)]
async fn full_tombstones_refuse_new_work_and_evict_nothing() {
    let world = World::new();
    let mut policy = at_most(2, 2, OnFull::EvictOldestFinal);
    policy.capacity.max_tombstones = 3;
    let engine = world.engine_with(policy);
    for key in 0..5 {
        assert!(pay(of(&engine, "acme", key), "v").await.is_ok(), "{key}");
    }
    let evicted = engine.stats().evicted;
    assert_eq!(evicted, 3);
    for key in 5..9 {
        assert!(quota(&never(of(&engine, "acme", key)).await));
    }
    assert_eq!(engine.stats().evicted, evicted);
    for key in 3..5 {
        assert!(never(of(&engine, "acme", key)).await.unwrap().replayed, "{key}");
    }
}

/// More run at once than admission allows: the next is refused, its key stays free, and it runs when one has ended.
#[tokio::test(start_paused = true)]
async fn admission_refuses_cleanly_and_frees_its_place() {
    let world = World::new();
    let engine =
        world.engine_with(policy(|policy| policy.admission = Some(Admission { max_in_flight: 3, per_tenant: 2 })));
    let first = begin(of(&engine, "acme", 0)).await;
    let second = begin(of(&engine, "acme", 1)).await;
    assert!(admission(&never(of(&engine, "acme", 2)).await));
    assert_eq!(state(&engine, &of(&engine, "acme", 2).id().unwrap()).await, StateName::Absent);
    let third = begin(of(&engine, "other", 0)).await;
    assert!(admission(&never(of(&engine, "third", 0)).await), "the surface is full");
    // It is the end that frees the place, also where the ticket is kept.
    for ticket in [&first, &second, &third] {
        assert!(ticket.complete(&engine, done("1")).await.unwrap().is_done());
    }
    assert!(pay(of(&engine, "acme", 2).fingerprint("something else"), "v").await.is_ok());
}

/// Everything runs that may: a retry of what was done needs no place among the running, and neither does a waiter.
#[tokio::test(start_paused = true)]
async fn duplicates_need_no_admission() {
    let world = World::new();
    let policy = policy(|policy| policy.admission = Some(Admission { max_in_flight: 2, per_tenant: 2 }));
    let engine = world.engine_with(policy.clone());
    assert!(pay(of(&engine, "acme", 0), "done").await.is_ok());
    let elsewhere = world.engine_with(policy);
    let first = begin(of(&elsewhere, "acme", 1)).await;
    let waiter = tokio::spawn(never(of(&elsewhere, "acme", 1)));
    sleep(10).await;
    assert_eq!(elsewhere.waiting(), 1);
    let second = begin(of(&elsewhere, "acme", 2)).await;
    // Both places are taken now.
    assert!(admission(&never(of(&elsewhere, "acme", 3)).await));
    assert!(never(of(&elsewhere, "acme", 0)).await.unwrap().replayed);
    let joins = tokio::spawn(never(of(&elsewhere, "acme", 2)));
    sleep(10).await;
    assert_eq!(elsewhere.waiting(), 2);
    assert!(first.complete(&elsewhere, done("\"1\"")).await.unwrap().is_done());
    assert!(second.complete(&elsewhere, done("\"2\"")).await.unwrap().is_done());
    assert_eq!(waiter.await.unwrap().unwrap().value, "1");
    assert_eq!(joins.await.unwrap().unwrap().value, "2");
}

/// A begin that the store fails gives its place back.
#[tokio::test(start_paused = true)]
async fn a_begin_that_fails_gives_its_places_back() {
    let world = World::new();
    let mut policy = at_most(2, 2, OnFull::RejectNew);
    policy.admission = Some(Admission { max_in_flight: 1, per_tenant: 1 });
    let engine = world.engine_with(policy);
    for _ in 0..5 {
        world.store.mood(Mood::Down);
        assert!(matches!(never(of(&engine, "acme", 0)).await, Err(OnceError::Engine(_))));
        world.store.mood(Mood::Well);
    }
    assert!(pay(of(&engine, "acme", 0), "v").await.is_ok());
    assert!(pay(of(&engine, "acme", 1), "v").await.is_ok());
}

/// The store does not answer how much it holds: that is a store call like any other and has its time-out.
#[tokio::test(start_paused = true)]
async fn a_store_silent_about_its_usage_is_given_up_in_time() {
    let world = World::new();
    world.store.usage_is_silent();
    let engine = world.engine();
    let given = tokio::time::timeout(Duration::from_secs(60), never(call(&engine, "k"))).await;
    assert!(matches!(given.expect("it hangs"), Err(OnceError::Engine(_))));
}

/// One lost answer about the usage is no reason to turn a caller away.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_about_usage_is_asked_again() {
    let world = World::new();
    let engine = world.engine();
    world.faulty.script(hapax_store::Fault::LostRead);
    assert!(pay(call(&engine, "k"), "v").await.is_ok());
}

/// A failure that may be tried again is kept to be seen; the second attempt needs no further room.
#[tokio::test(start_paused = true)]
async fn another_attempt_needs_no_further_room() {
    let world = World::new();
    let engine = Arc::new(world.engine_with(at_most(1, 1, OnFull::RejectNew)));
    let first = begin(of(&engine, "acme", 0)).await;
    assert!(first.fail(&engine, retryable("busy")).await.unwrap().is_done());
    assert_eq!(pay(of(&engine, "acme", 0), "v").await.unwrap().attempt, 2);
}

/// The only record has expired and no sweeper has passed: it is gone all the same, and its room is there.
#[tokio::test(start_paused = true)]
async fn an_expired_record_makes_room_before_the_sweeper_passes() {
    for on_full in [OnFull::EvictOldestFinal, OnFull::RejectNew] {
        let world = World::new();
        let mut policy = at_most(1, 1, on_full);
        policy.success = Span::For(Millis::from_secs(100));
        let engine = world.engine_with(policy);
        assert!(pay(of(&engine, "acme", 0), "v").await.is_ok());
        sleep(101_000).await;
        assert!(pay(of(&engine, "acme", 1), "v").await.is_ok(), "{on_full:?}");
        assert_eq!(engine.stats().evicted, 0, "nothing had to be given up");
    }
}

/// The only record was admitted, never started, and its lease is over: it reads as absent, so its room is there.
#[tokio::test(start_paused = true)]
async fn a_lapse_before_the_start_makes_room_before_the_sweeper_passes() {
    for on_full in [OnFull::EvictOldestFinal, OnFull::RejectNew] {
        let world = World::new();
        let engine = world.engine_with(at_most(1, 1, on_full));
        drop(begin(of(&engine, "acme", 0).not_started()).await);
        assert!(quota(&never(of(&engine, "acme", 1)).await), "{on_full:?}: it is live");
        sleep(61_000).await;
        assert!(pay(of(&engine, "acme", 1), "v").await.is_ok(), "{on_full:?}");
    }
}

/// Room is made for a call whose tenant may run one thing at a time: it must not stand in its own way.
#[tokio::test(start_paused = true)]
async fn making_room_does_not_use_up_ones_own_admission() {
    let world = World::new();
    let mut policy = at_most(10, 1, OnFull::EvictOldestFinal);
    policy.admission = Some(Admission { max_in_flight: 1, per_tenant: 1 });
    let engine = world.engine_with(policy);
    for key in 0..5 {
        let given = pay(of(&engine, "acme", key), "v").await;
        assert!(given.is_ok(), "{given:?}");
    }
}

/// The limit is lowered while there was room for hundreds more: it holds from the next request on, also where a call that was
/// made before the reload comes after it.
#[tokio::test(start_paused = true)]
async fn a_lowered_limit_holds_at_once() {
    let world = World::new();
    let engine = world.engine_with(at_most(1_000, 1_000, OnFull::RejectNew));
    assert!(pay(of(&engine, "acme", 0), "v").await.is_ok());
    let made_before = of(&engine, "acme", 1);
    let mut policies = Policies::default();
    policies.set(Surface::new("pay").unwrap(), at_most(5, 5, OnFull::RejectNew)).unwrap();
    engine.reload(policies);
    assert!(pay(made_before, "v").await.is_ok());
    let mut kept = 2;
    for key in 2..500 {
        kept += usize::from(pay(of(&engine, "acme", key), "v").await.is_ok());
    }
    assert_eq!(kept, 5);
}
