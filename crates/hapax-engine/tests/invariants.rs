//! The thirteen invariants of the rules, one by one, at the level of the engine. What is shown here in its plainest
//! form is driven through faults, crowds and jumps in the other files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, atomic::Ordering::SeqCst};

use crate::support::*;
use hapax_core::{
    Cause, Effect, Millis, Nonce, Span, StateName, Verdict,
    command::{Posture, Release, Resolution, Resolve},
    policy::{Admission, Capacity, OnFull},
};
use hapax_engine::{Begun, OnceError, Settings, Stepped, Wait};
use hapax_store::{Fault, Store};

/// 1. Two attempts never both hold a token that is accepted, and an operation gets one final outcome.
#[tokio::test(start_paused = true)]
async fn i01_one_owner() {
    let world = World::new();
    let engine = world.engine();
    let mut tickets = Vec::new();
    for _ in 0..5 {
        tickets.push(begin(call(&engine, "k").effect(Effect::Idempotent)).await);
        sleep(61_000).await;
    }
    let latest = tickets.pop().unwrap();
    for ticket in &tickets {
        assert!(matches!(ticket.renew(&engine).await.unwrap(), Stepped::Fenced));
        assert!(matches!(ticket.complete(&engine, done("\"old\"")).await.unwrap(), Stepped::Fenced));
        assert!(matches!(ticket.release(&engine, Release::NoEffect).await.unwrap(), Stepped::Fenced));
        assert!(matches!(ticket.fail(&engine, retryable("old")).await.unwrap(), Stepped::Fenced));
    }
    assert!(latest.complete(&engine, done("\"new\"")).await.unwrap().is_done());
    for ticket in tickets.iter().chain([&latest]) {
        assert!(!ticket.reject(&engine, refused("\"other\"")).await.unwrap().is_done());
    }
    assert_eq!(never(call(&engine, "k")).await.unwrap().value, "new");
}

/// 2. Another attempt begins only after a recorded end, a lapse before the start, or a lapse of a class that allows it.
#[tokio::test(start_paused = true)]
async fn i02_no_second_effect_without_leave() {
    for effect in Effect::ALL {
        for started in [true, false] {
            let world = World::new();
            let engine = world.engine();
            let with = |call: hapax_engine::Call| if started { call } else { call.not_started() };
            let _gone = begin(with(call(&engine, "k").effect(effect))).await;
            assert!(matches!(call(&engine, "k").wait(Wait::No).begin().await.unwrap(), Begun::Told(_)));
            sleep(61_000).await;
            let begun = call(&engine, "k").effect(effect).begin().await.unwrap();
            let allowed = !started || effect.may_rerun();
            assert_eq!(matches!(begun, Begun::Execute(_)), allowed, "{effect}, started: {started}");
        }
    }
}

/// 3. A started attempt that vanished is in doubt, for ever if need be; only a resolution or its own late end leaves it.
#[tokio::test(start_paused = true)]
async fn i03_unknown_is_not_failure() {
    for effect in [Effect::Compensatable, Effect::Irreversible, Effect::Unsafe] {
        let world = World::new();
        let engine = world.engine();
        let ticket = begin(call(&engine, "k").effect(effect)).await;
        for days in [0, 1, 30, 400] {
            sleep(61_000 + days * 86_400_000).await;
            engine.sweep().await.unwrap();
            assert!(
                matches!(never(call(&engine, "k").effect(effect)).await, Err(OnceError::InDoubt { .. })),
                "{effect}"
            );
        }
        assert!(matches!(ticket.complete(&engine, done("\"v\"")).await.unwrap(), Stepped::Done(done) if done.late));
        assert!(never(call(&engine, "k").effect(effect)).await.unwrap().replayed);
    }
}

/// 4. Once given out, an answer does not change inside its retention: from gate, store, another process, after late
/// words of its own owner.
#[tokio::test(start_paused = true)]
async fn i04_answers_do_not_change() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k")).await;
    assert!(ticket.complete(&engine, done("\"given\"")).await.unwrap().is_done());
    for hour in 0..23 {
        let _ = ticket.complete(&engine, done("\"other\"")).await.unwrap();
        let _ = ticket.fail(&engine, retryable("no")).await.unwrap();
        let _ = ticket.release(&engine, Release::NoEffect).await.unwrap();
        let _ = engine.reject(&ticket.id(), ticket.token(), refused("\"no\"")).await.unwrap();
        engine.sweep().await.unwrap();
        for engine in [&engine, &world.engine()] {
            assert_eq!(never(call(engine, "k")).await.unwrap().value, "given", "hour {hour}");
        }
        sleep(3_600_000).await;
    }
}

/// 5. No reply leaves before what it depends on is durable: while the write is on its way, the caller waits.
#[tokio::test(start_paused = true)]
async fn i05_durable_before_acknowledged() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k")).await;
    let held = world.store.hold_swaps();
    let completing = {
        let (engine, ticket) = (engine.clone(), ticket.clone());
        tokio::spawn(async move { ticket.complete(&engine, done("\"v\"")).await })
    };
    let beginning = tokio::spawn(call(&engine, "new").begin());
    sleep(1_000).await;
    assert!(!completing.is_finished() && !beginning.is_finished());
    assert!(engine.gate().is_empty(), "nor does anybody else learn of it from here");
    held.add_permits(10);
    assert!(completing.await.unwrap().unwrap().is_done());
    assert!(matches!(beginning.await.unwrap().unwrap(), Begun::Execute(_)));
    // A body is durable before the record that names it.
    world.store.hold_nothing();
    let large = begin(call(&engine, "large")).await;
    world.store.fail_body_puts(1_000);
    assert!(large.complete(&engine, hapax_core::Outcome::success(vec![1; 100_000])).await.is_err());
    assert_eq!(state(&engine, &large.id()).await, StateName::Pending);
}

/// 6. A stale token is refused and said to be; its outcome is kept while there is a record.
#[tokio::test(start_paused = true)]
async fn i06_a_stale_token_is_refused_and_said_to_be() {
    let world = World::new();
    let engine = world.engine();
    let stale = begin(call(&engine, "k").effect(Effect::Pure)).await;
    sleep(61_000).await;
    let _newer = begin(call(&engine, "k").effect(Effect::Pure)).await;
    assert!(matches!(stale.complete(&engine, done("\"kept\"")).await.unwrap(), Stepped::Fenced));
    let explained = engine.explain(&stale.id()).await.unwrap();
    assert_eq!(explained.record.unwrap().evidence[0].outcome, done("\"kept\""));
    assert!(explained.recent.iter().any(|logged| logged.event.cause == Cause::Fenced));
    assert_eq!(engine.stats().fenced, 1);
}

/// 7. A waiter never executes, whatever it wakes to.
#[tokio::test(start_paused = true)]
async fn i07_a_waiter_never_executes() {
    for end in 0..5 {
        let world = World::new();
        let engine = world.engine();
        let owner = begin(call(&engine, "k").effect(Effect::Pure)).await;
        let waiter = tokio::spawn(never(call(&engine, "k").effect(Effect::Pure).wait(Wait::AtMost(Millis(90_000)))));
        sleep(1_000).await;
        match end {
            0 => assert!(owner.complete(&engine, done("\"v\"")).await.unwrap().is_done()),
            1 => assert!(owner.fail(&engine, retryable("no")).await.unwrap().is_done()),
            2 => assert!(owner.release(&engine, Release::NoEffect).await.unwrap().is_done()),
            3 => sleep(100_000).await,
            _ => {
                let version = engine.version(&owner.id()).await.unwrap();
                let resolution = Resolution::Open(Posture::Idempotent);
                let resolve = Resolve { version, resolution, actor: "ann".into(), reason: "because".into() };
                assert!(engine.resolve(&owner.id(), resolve).await.unwrap().is_done());
            }
        }
        // `never` panics where it runs, which would be reported as such.
        let told = soon(waiter).await.unwrap();
        assert!(!matches!(told, Err(OnceError::Panicked(_))), "{end}: {told:?}");
        assert_eq!(engine.stats().executed, 1);
    }
}

/// 8. Expiry is judged when read, by the store's clock, never by when the sweep passes.
#[tokio::test(start_paused = true)]
async fn i08_expiry_is_judged_when_read() {
    for sweep in [false, true] {
        let world = World::new();
        let engine = world.engine_with(policy(|policy| policy.success = Span::For(Millis::from_secs(100))));
        assert!(pay(call(&engine, "k"), "first").await.is_ok());
        sleep(99_999).await;
        if sweep {
            engine.sweep().await.unwrap();
        }
        assert!(never(call(&engine, "k")).await.unwrap().replayed, "one millisecond before its end");
        sleep(1).await;
        if sweep {
            engine.sweep().await.unwrap();
        }
        assert_eq!(pay(call(&engine, "k"), "second").await.unwrap().value, "second", "at its end");
    }
}

/// 9. Live work is never evicted, and what waits in doubt is live.
#[tokio::test(start_paused = true)]
async fn i09_live_work_is_never_evicted() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.capacity = Capacity::of(3, OnFull::EvictOldestFinal)));
    let doubtful = begin(call(&engine, "doubtful")).await;
    sleep(61_000).await;
    let pending = begin(call(&engine, "pending")).await;
    for number in 0..20 {
        assert!(pay(call(&engine, &format!("k{number}")), "v").await.is_ok());
    }
    assert_eq!(engine.stats().evicted, 19);
    assert_eq!(state(&engine, &doubtful.id()).await, StateName::InDoubt);
    assert_eq!(state(&engine, &pending.id()).await, StateName::Pending);
}

/// 10. Tenants are strangers: one at its limits takes nothing from another. (Every path: watching.rs.)
#[tokio::test(start_paused = true)]
async fn i10_tenants_are_strangers() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| {
        policy.capacity = Capacity {
            max_records: 100,
            per_tenant: 2,
            max_tombstones: 100,
            bytes_per_tenant: None,
            on_full: OnFull::RejectNew,
        };
        policy.admission = Some(Admission { max_in_flight: 100, per_tenant: 1 });
    }));
    let of = |tenant: &str, key: &str| engine.surface("pay").tenant(tenant).key(key);
    let _busy = begin(of("loud", "one")).await;
    assert!(matches!(never(of("loud", "two")).await, Err(OnceError::Refused(_))));
    for key in ["one", "two"] {
        assert_eq!(pay(of("quiet", key), "mine").await.unwrap().value, "mine");
    }
}

/// 11. A request refused before its effect leaves neither a record nor its fingerprint behind.
#[tokio::test(start_paused = true)]
async fn i11_clean_refusals_leave_nothing() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| {
        policy.admission = Some(Admission { max_in_flight: 1, per_tenant: 1 });
    }));
    let busy = begin(call(&engine, "busy")).await;
    assert!(matches!(never(call(&engine, "k").fingerprint("wrong")).await, Err(OnceError::Refused(_))));
    assert!(matches!(call(&engine, "k").epoch(1, 2).begin().await.unwrap(), Begun::Told(Verdict::Refused(_))));
    assert!(busy.release(&engine, Release::NoEffect).await.unwrap().is_done());
    drop(busy);
    assert!(matches!(call(&engine, "k").epoch(1, 2).begin().await.unwrap(), Begun::Told(Verdict::Fenced)));
    world.store.mood(Mood::Down);
    assert!(never(call(&engine, "k").fingerprint("wrong")).await.is_err());
    world.store.mood(Mood::Well);
    sleep(1_000).await;
    assert_eq!(pay(call(&engine, "k").fingerprint("right"), "v").await.unwrap().attempt, 1);
}

/// 12. The clock jumps, in either direction by any amount: windows grow or shrink, and nothing else breaks.
#[tokio::test(start_paused = true)]
async fn i12_the_clock_may_jump() {
    for jump in [i64::MIN / 4, -86_400_000 * 365, -3_600_000, -1, 1, 3_600_000, 86_400_000 * 365, i64::MAX / 4] {
        let world = World::new();
        let engine = world.engine();
        assert!(pay(call(&engine, "done"), "v").await.is_ok());
        let runs = begin(call(&engine, "runs")).await;
        world.clock.jump(jump);
        engine.sweep().await.unwrap();
        assert!(matches!(
            never(call(&engine, "runs").wait(Wait::No)).await,
            Err(OnceError::InFlight { .. } | OnceError::InDoubt { .. })
        ));
        let again = pay(call(&engine, "done"), "again").await.unwrap();
        assert_eq!(again.replayed, again.value == "v", "by {jump}");
        assert!(runs.complete(&engine, done("\"v\"")).await.unwrap().is_done(), "by {jump}");
        world.clock.jump(-jump);
        engine.sweep().await.unwrap();
        assert!(!matches!(never(call(&engine, "runs").wait(Wait::No)).await, Err(OnceError::Panicked(_))), "by {jump}");
        assert!(pay(call(&engine, "new"), "v").await.is_ok(), "by {jump}");
    }
}

/// 13. Everything is bounded: what is left of a flood of keys of every kind is gone after its retention, and the ring,
/// the gate and the waiters have their limits.
#[tokio::test(start_paused = true)]
async fn i13_everything_is_bounded() {
    let world = World::new();
    let small = Settings { events: 100, ..settings() };
    let short = policy(|policy| {
        policy.success = Span::For(Millis::from_hours(1));
        policy.final_failure = hapax_core::policy::Treatment::Replay(Span::For(Millis::from_hours(1)));
        policy.tombstone_retention = Span::For(Millis::from_hours(1));
    });
    let engine = world.builder().settings(small).policy("pay", short).build().unwrap();
    let mut tag = None;
    for number in 0..600 {
        let effect = Effect::ALL[number % 5];
        let ticket = begin(call(&engine, &format!("k{number}")).effect(effect)).await;
        match number % 4 {
            0 => assert!(ticket.complete(&engine, done("1")).await.unwrap().is_done()),
            1 => assert!(ticket.reject(&engine, refused("1")).await.unwrap().is_done()),
            2 => assert!(ticket.fail(&engine, retryable("1")).await.unwrap().is_done()),
            _ => assert!(ticket.release(&engine, Release::NoEffect).await.unwrap().is_done()),
        }
        tag = tag.or(engine.explain(&ticket.id()).await.unwrap().record.map(|record| record.about.surface_tag));
    }
    assert!(engine.events().after(0).unwrap().len() <= 100);
    sleep(2 * 3_600_000 + 1).await;
    engine.sweep().await.unwrap();
    let usage = world.memory.usage(tag.unwrap()).await.unwrap();
    assert_eq!((usage.records, usage.tombstones), (0, 0));
    // A record carries a bounded past, however often it is tried.
    for _ in 0..50 {
        let ticket = begin(call(&engine, "tried").effect(Effect::Pure)).await;
        assert!(ticket.fail(&engine, retryable("again")).await.unwrap().is_done());
    }
    let record = engine.explain(&id(&engine, "tried")).await.unwrap().record.unwrap();
    assert!(record.past.len() <= 8 && record.attempt.number == 50);
}

/// A repeated nonce is one begin, also when two come at once: one attempt, one token.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_nonce_at_once_is_one_attempt() {
    let world = World::new();
    let engine = world.engine();
    for round in 0..100_u8 {
        let key = format!("k{round}");
        let nonce = Nonce([round; 16]);
        let (one, two) = tokio::join!(
            tokio::spawn(call(&engine, &key).begin_with(nonce)),
            tokio::spawn(call(&engine, &key).begin_with(nonce))
        );
        let (one, two) = (ticket(one.unwrap().unwrap()), ticket(two.unwrap().unwrap()));
        assert_eq!((one.token(), one.attempt()), (two.token(), 1));
        assert_eq!(one.fence(), two.fence());
    }
}

/// A write of unknown fate is told apart from one that did not happen: the engine reads again and knows its own.
#[tokio::test(start_paused = true)]
async fn every_step_survives_a_lost_answer() {
    for fault in [Fault::After, Fault::Before, Fault::Late(hapax_store::Landing::SomeCall)] {
        let world = World::new();
        let engine = world.engine();
        for key in ["complete", "reject", "fail", "release"] {
            world.faulty.script(fault);
            let ticket = begin(call(&engine, key).not_started()).await;
            world.faulty.script(fault);
            assert!(ticket.start(&engine).await.unwrap().is_done(), "{fault:?}");
            world.faulty.script(fault);
            assert!(ticket.renew(&engine).await.unwrap().is_done(), "{fault:?}");
            world.faulty.script(fault);
            let ended = match key {
                "complete" => ticket.complete(&engine, done("1")).await,
                "reject" => ticket.reject(&engine, refused("1")).await,
                "fail" => ticket.fail(&engine, retryable("1")).await,
                _ => ticket.release(&engine, Release::NoEffect).await,
            };
            assert!(ended.unwrap().is_done(), "{fault:?} {key}");
            world.faulty.release_late().await.unwrap();
        }
        let states = ["complete", "reject", "fail", "release"];
        let expected = [StateName::Committed, StateName::Rejected, StateName::Open, StateName::Absent];
        for (key, expected) in states.into_iter().zip(expected) {
            assert_eq!(state(&engine, &id(&engine, key)).await, expected, "{fault:?} {key}");
        }
        assert!(Arc::clone(&world.store).swaps.load(SeqCst) >= 16);
    }
}
