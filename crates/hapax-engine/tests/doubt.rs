//! What nobody knows: probes ask the world, operators decide, the sweeper writes down what time has done.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use crate::support::*;
use hapax_core::{
    Cause, Effect, Id, Millis, NextAction, Outcome, Span, StateName, Verdict, Version,
    command::{Conflict, Posture, Refused, Resolution, Resolve},
    policy::OnLapse,
};
use hapax_engine::{Begun, Certainty, Doubt, Engine, EngineError, Found, OnceError, Probed, Settings, Stepped, Wait};
use hapax_store::{BodyId, Fault, Store};

async fn in_doubt(engine: &Engine, key: &str) -> Id {
    let ticket = begin(call(engine, key)).await;
    sleep(61_000).await;
    ticket.id()
}

fn resolve(version: Version, resolution: Resolution) -> Resolve {
    Resolve { version, resolution, actor: "ann".into(), reason: "seen in the provider's console".into() }
}

async fn decide(engine: &Engine, id: &Id, resolution: Resolution) -> Stepped {
    let version = engine.version(id).await.unwrap();
    engine.resolve(id, resolve(version, resolution)).await.unwrap()
}

/// Every answer that a probe can give leads where the rules say, and only certainty opens an operation.
#[tokio::test(start_paused = true)]
async fn a_probe_decides_only_what_it_knows_for_certain() {
    let refused = Outcome::new(hapax_core::OutcomeClass::FinalFailure, hapax_core::Body::Inline("refused".into()));
    let table = [
        (Found::Applied(done("\"applied\"")), Probed::Resolved, StateName::Committed),
        (Found::Refused(refused), Probed::Resolved, StateName::Rejected),
        (Found::NotApplied(Certainty::Prevented), Probed::Resolved, StateName::Open),
        (Found::NotApplied(Certainty::OwnerGone), Probed::Resolved, StateName::Open),
        (Found::NotAppliedYet, Probed::StillUnknown, StateName::InDoubt),
        (Found::Unknown, Probed::StillUnknown, StateName::InDoubt),
    ];
    for (found, probed, expected) in table {
        let world = World::new();
        let answer = found.clone();
        let engine = world
            .builder()
            .probe("pay", move |_: Doubt| {
                let answer = answer.clone();
                async move { answer }
            })
            .build()
            .unwrap();
        let id = in_doubt(&engine, "k").await;
        assert_eq!(engine.probe(&id).await.unwrap(), probed, "{found:?}");
        assert_eq!(state(&engine, &id).await, expected, "{found:?}");
        match expected {
            StateName::Committed => assert_eq!(never(call(&engine, "k")).await.unwrap().value, "applied"),
            StateName::Rejected => {
                assert!(matches!(never(call(&engine, "k")).await, Err(OnceError::Rejected { .. })));
            }
            StateName::Open => assert_eq!(pay(call(&engine, "k"), "v").await.unwrap().attempt, 2),
            StateName::InDoubt => {
                assert!(matches!(never(call(&engine, "k")).await, Err(OnceError::InDoubt { .. })));
            }
            StateName::Absent | StateName::Pending | StateName::Tombstone => panic!("nothing in the table leads there"),
        }
    }
}

/// A probe that hangs or panics says nothing: it stays in doubt, is asked again later, and breaks nobody.
#[tokio::test(start_paused = true)]
async fn a_probe_that_hangs_or_panics_says_nothing() {
    for hangs in [true, false] {
        let world = World::new();
        let engine = world
            .builder()
            .probe("pay", move |_: Doubt| async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                panic!("the probe is broken")
            })
            .build()
            .unwrap();
        let id = in_doubt(&engine, "k").await;
        assert_eq!(soon(engine.probe(&id)).await.unwrap(), Probed::StillUnknown, "hangs: {hangs}");
        sleep(60_000).await;
        soon(engine.sweep()).await.unwrap();
        assert_eq!(state(&engine, &id).await, StateName::InDoubt);
        assert_eq!(engine.stats().probed, 2);
    }
}

/// A probe is told what to ask about.
#[tokio::test(start_paused = true)]
async fn a_probe_is_told_what_to_ask_about() {
    let world = World::new();
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let list = Arc::clone(&seen);
    let engine = world
        .builder()
        .probe("pay", move |doubt: Doubt| {
            list.lock().push(doubt);
            async { Found::Unknown }
        })
        .build()
        .unwrap();
    let ticket = begin(call(&engine, "k")).await;
    sleep(61_000).await;
    engine.probe(&ticket.id()).await.unwrap();
    sleep(3_600_000).await;
    engine.probe(&ticket.id()).await.unwrap();
    let seen = seen.lock();
    assert_eq!(seen.iter().map(|doubt| doubt.probes).collect::<Vec<_>>(), [0, 1]);
    for doubt in &*seen {
        assert_eq!((doubt.id, doubt.token, doubt.fence), (ticket.id(), ticket.token(), ticket.fence()));
        assert_eq!(doubt.downstream_key, ticket.downstream_key());
        assert_eq!(&*doubt.about.tenant, "acme");
    }
}

/// Two processes, and many callers, find the same doubt: one asks at a time.
#[tokio::test(start_paused = true)]
async fn one_process_asks_at_a_time() {
    let world = World::new();
    let (asked, at_once, most) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let engine = || {
        let (asked, at_once, most) = (Arc::clone(&asked), Arc::clone(&at_once), Arc::clone(&most));
        world
            .builder()
            .probe("pay", move |_: Doubt| {
                let (asked, at_once, most) = (Arc::clone(&asked), Arc::clone(&at_once), Arc::clone(&most));
                async move {
                    asked.fetch_add(1, SeqCst);
                    most.fetch_max(at_once.fetch_add(1, SeqCst) + 1, SeqCst);
                    sleep(5_000).await;
                    at_once.fetch_sub(1, SeqCst);
                    Found::Unknown
                }
            })
            .build()
            .unwrap()
    };
    let (here, there) = (engine(), engine());
    let id = in_doubt(&here, "k").await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..40 {
        let engine = if number % 2 == 0 { here.clone() } else { there.clone() };
        tasks.spawn(async move {
            if number % 4 == 0 {
                assert!(matches!(never(call(&engine, "k")).await, Err(OnceError::InDoubt { .. })));
            } else {
                engine.probe(&id).await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    sleep(10_000).await;
    assert_eq!((asked.load(SeqCst), most.load(SeqCst)), (1, 1));
}

/// The provider is down and a thousand operations are in doubt: each is asked ever more seldom, few at once.
#[tokio::test(start_paused = true)]
async fn a_providers_outage_causes_no_storm() {
    let world = World::new();
    let (asked, at_once, most) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (count, now, peak) = (Arc::clone(&asked), Arc::clone(&at_once), Arc::clone(&most));
    let patient = Settings {
        probe_first: std::time::Duration::from_secs(60),
        probe_longest: std::time::Duration::from_secs(3_600),
        ..settings()
    };
    let engine = world
        .builder()
        .settings(patient)
        .probe("pay", move |_: Doubt| {
            let (count, now, peak) = (Arc::clone(&count), Arc::clone(&now), Arc::clone(&peak));
            async move {
                count.fetch_add(1, SeqCst);
                peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                sleep(10).await;
                now.fetch_sub(1, SeqCst);
                Found::Unknown
            }
        })
        .build()
        .unwrap();
    for number in 0..1_000 {
        drop(begin(call(&engine, &format!("k{number}"))).await);
    }
    sleep(61_000).await;
    // Everybody asks again at once, before the sweeper has passed.
    for number in 0..1_000 {
        let told = call(&engine, &format!("k{number}")).begin().await.unwrap();
        assert!(matches!(told, Begun::Told(Verdict::InDoubt { .. })));
    }
    settle().await;
    assert!(asked.load(SeqCst) > 0, "somebody is asked");
    // An hour of sweeping every ten seconds.
    let mut per_quarter = Vec::new();
    for _ in 0..4 {
        let before = asked.load(SeqCst);
        for _ in 0..90 {
            engine.sweep().await.unwrap();
            sleep(10_000).await;
        }
        per_quarter.push(asked.load(SeqCst) - before);
    }
    assert!(per_quarter[0] >= 1_000 && per_quarter[0] <= 5_000, "{per_quarter:?}");
    assert!(per_quarter[3] < per_quarter[0], "the back-off grows: {per_quarter:?}");
    assert!(asked.load(SeqCst) <= 8_000, "{}", asked.load(SeqCst));
    assert!(most.load(SeqCst) <= 16, "{} at once", most.load(SeqCst));
}

/// In doubt, a caller learns when the next probe is due, or that an operator has to be asked.
#[tokio::test(start_paused = true)]
async fn a_caller_in_doubt_learns_what_comes_next() {
    let engine = World::new().engine();
    in_doubt(&engine, "k").await;
    let told = call(&engine, "k").begin().await.unwrap();
    assert!(matches!(told, Begun::Told(Verdict::InDoubt { next: NextAction::AskOperator, .. })), "{told:?}");

    let world = World::new();
    let engine = world.builder().probe("pay", |_: Doubt| async { Found::Unknown }).build().unwrap();
    let id = in_doubt(&engine, "k").await;
    let told = call(&engine, "k").begin().await.unwrap();
    let Begun::Told(Verdict::InDoubt { next: NextAction::WaitForProbe { at }, .. }) = told else { panic!("{told:?}") };
    assert!(engine.until(at) > Millis::ZERO, "it is being asked now");
    sleep(100).await;
    let told = call(&engine, "k").begin().await.unwrap();
    assert!(matches!(told, Begun::Told(Verdict::InDoubt { next: NextAction::WaitForProbe { .. }, .. })), "{told:?}");
    assert_eq!(engine.stats().probed, 1, "asking for it has asked the probe");
    assert_eq!(state(&engine, &id).await, StateName::InDoubt);
}

/// *Applied* says that it was done, whatever class its outcome was made with.
#[tokio::test(start_paused = true)]
async fn what_a_probe_finds_says_its_class() {
    let world = World::new();
    let found = |_: Doubt| async { Found::Applied(retryable("\"paid\"")) };
    let engine = world.builder().probe("pay", found).build().unwrap();
    let id = in_doubt(&engine, "k").await;
    assert_eq!(engine.probe(&id).await.unwrap(), Probed::Resolved);
    assert_eq!(never(call(&engine, "k")).await.unwrap().value, "paid");
}

/// The owner reports while the probe is out: its word counts, and the probe's answer finds the version moved.
#[tokio::test(start_paused = true)]
async fn a_late_owner_overtakes_a_probe() {
    let world = World::new();
    let engine = world
        .builder()
        .probe("pay", |_: Doubt| async {
            sleep(5_000).await;
            Found::NotApplied(Certainty::Prevented)
        })
        .build()
        .unwrap();
    let owner = begin(call(&engine, "k")).await;
    sleep(61_000).await;
    let asking = {
        let (engine, id) = (engine.clone(), owner.id());
        tokio::spawn(async move { engine.probe(&id).await.unwrap() })
    };
    sleep(1_000).await;
    assert!(owner.complete(&engine, done("\"mine\"")).await.unwrap().is_done());
    assert_ne!(asking.await.unwrap(), Probed::Resolved);
    assert_eq!(never(call(&engine, "k")).await.unwrap().value, "mine");
}

/// A resolution names the version it was decided on: whoever looked at an older state is told that it has moved.
#[tokio::test(start_paused = true)]
async fn a_resolution_on_an_older_state_is_refused() {
    let world = World::new();
    let engine = world.engine();
    let id = in_doubt(&engine, "k").await;
    let version = engine.version(&id).await.unwrap();
    let committed = || Resolution::Committed(done("\"v\""));
    let stale = Version(version.0 - 1);
    let told = engine.resolve(&id, resolve(stale, committed())).await.unwrap();
    assert!(matches!(told, Stepped::Conflict(Conflict::VersionMoved { now_at }) if now_at == version));
    assert!(engine.resolve(&id, resolve(version, committed())).await.unwrap().is_done());
    let second = engine.resolve(&id, resolve(version, Resolution::Open(Posture::Idempotent))).await.unwrap();
    assert!(matches!(second, Stepped::Conflict(_)), "two operators: one decides");
    assert!(matches!(decide(&engine, &id, committed()).await, Stepped::Conflict(Conflict::WrongState(_))));
    let nobody = Id([9; 32]);
    assert!(matches!(engine.resolve(&nobody, resolve(version, committed())).await, Err(EngineError::NotFound(_))));
}

/// Without a reason nothing is resolved.
#[tokio::test(start_paused = true)]
async fn a_resolution_without_a_reason_is_refused() {
    let world = World::new();
    let engine = world.engine();
    let id = in_doubt(&engine, "k").await;
    for reason in ["", "  \t\n"] {
        let version = engine.version(&id).await.unwrap();
        let blank = Resolve { reason: reason.into(), ..resolve(version, Resolution::Open(Posture::OperatorAccepted)) };
        let told = engine.resolve(&id, blank).await.unwrap();
        assert!(matches!(told, Stepped::Refused(Refused::BlankReason)));
    }
    assert_eq!(state(&engine, &id).await, StateName::InDoubt);
}

/// A resolution whose reply was lost is recognised, and not reported as somebody else's.
#[tokio::test(start_paused = true)]
async fn a_resolution_whose_reply_was_lost_is_recognised() {
    let world = World::new();
    let engine = world.engine();
    let id = in_doubt(&engine, "k").await;
    world.faulty.script(Fault::After);
    assert!(decide(&engine, &id, Resolution::Committed(done("\"v\""))).await.is_done());
    assert_eq!(never(call(&engine, "k")).await.unwrap().value, "v");
}

/// An earlier attempt was resolved by the same operator in the same words. That is not this resolution: it was lost on
/// the way, and somebody else moved the record.
#[tokio::test(start_paused = true)]
async fn an_earlier_resolution_in_the_same_words_is_not_this_one() {
    let world = World::new();
    let engine = world.builder().probe("pay", |_: Doubt| async { Found::Unknown }).build().unwrap();
    let id = in_doubt(&engine, "k").await;
    assert!(decide(&engine, &id, Resolution::Open(Posture::OperatorAccepted)).await.is_done());
    let _second = begin(call(&engine, "k")).await;
    sleep(61_000).await;
    let version = engine.version(&id).await.unwrap();
    world.faulty.script(Fault::Late(hapax_store::Landing::Released));
    let deciding = {
        let engine = engine.clone();
        tokio::spawn(async move {
            engine.resolve(&id, resolve(version, Resolution::Open(Posture::OperatorAccepted))).await.unwrap()
        })
    };
    tokio::task::yield_now().await;
    // While the operator's write is lost, a probe claims the record and moves its version.
    assert_eq!(engine.probe(&id).await.unwrap(), Probed::StillUnknown);
    let told = deciding.await.unwrap();
    assert!(!told.is_done(), "it is still in doubt: {told:?}");
    assert_eq!(state(&engine, &id).await, StateName::InDoubt);
}

/// Who resolved it, why and when is in the record.
#[tokio::test(start_paused = true)]
async fn a_resolution_is_signed() {
    let world = World::new();
    let engine = world.engine();
    let id = in_doubt(&engine, "k").await;
    assert!(decide(&engine, &id, Resolution::Open(Posture::OwnerGone)).await.is_done());
    let explained = engine.explain(&id).await.unwrap();
    let resolved = explained.record.unwrap().resolved.unwrap();
    assert_eq!((&*resolved.actor, &*resolved.reason), ("ann", "seen in the provider's console"));
    let logged = explained.recent.iter().find(|logged| logged.event.cause == Cause::Resolve).unwrap();
    assert_eq!(logged.actor.as_deref(), Some("ann"));
}

/// A stale attempt stays pending, its token valid, until somebody resolves it.
#[tokio::test(start_paused = true)]
async fn a_stale_attempt_waits_for_a_decision() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.on_lapse = [Some(OnLapse::Stale); 5]));
    let ticket = begin(call(&engine, "k").effect(Effect::Pure)).await;
    sleep(600_000).await;
    engine.sweep().await.unwrap();
    assert_eq!(state(&engine, &ticket.id()).await, StateName::Pending);
    assert!(matches!(never(call(&engine, "k").wait(Wait::No)).await, Err(OnceError::InFlight { .. })));
    assert!(decide(&engine, &ticket.id(), Resolution::Open(Posture::Idempotent)).await.is_done());
    assert!(matches!(ticket.complete(&engine, done("1")).await.unwrap(), Stepped::Fenced));
    assert_eq!(pay(call(&engine, "k"), "v").await.unwrap().attempt, 2);
}

/// The sweeper writes lapses and expiries down, a bounded slice at a time, and changes no answer.
#[tokio::test(start_paused = true)]
async fn sweeping_thousands_goes_in_slices_and_changes_no_answer() {
    let world = World::new();
    let small = Settings { sweep_slice: 64, ..settings() };
    let short = policy(|policy| policy.success = Span::For(Millis::from_secs(30)));
    let engine = world.builder().settings(small).policy("pay", short).build().unwrap();
    for number in 0..1_500 {
        assert!(pay(call(&engine, &format!("done{number}")), "v").await.is_ok());
        drop(begin(call(&engine, &format!("lapsed{number}"))).await);
        drop(begin(call(&engine, &format!("unstarted{number}")).not_started()).await);
    }
    sleep(61_000).await;
    let before: Vec<_> = sample(&engine).await;
    let swept = engine.sweep().await.unwrap();
    assert_eq!(swept.written, 4_500);
    assert!(world.store.largest_scan.load(SeqCst) <= 64);
    assert_eq!(sample(&engine).await, before);
    let again = engine.sweep().await.unwrap();
    assert_eq!(again.written, 0, "it has nothing left to do");
    let usage =
        world.memory.usage(engine.explain(&id(&engine, "lapsed0")).await.unwrap().record.unwrap().about.surface_tag);
    assert_eq!(usage.await.unwrap().records, 1_500, "only what is in doubt is left");
}

async fn sample(engine: &Engine) -> Vec<StateName> {
    let mut states = Vec::new();
    for number in (0..1_500).step_by(97) {
        for kind in ["done", "lapsed", "unstarted"] {
            states.push(state(engine, &id(engine, &format!("{kind}{number}"))).await);
        }
    }
    states
}

/// Bodies that no record names are dropped once they are old; young ones, and those that are named, are kept.
#[tokio::test(start_paused = true)]
async fn orphaned_bodies_are_dropped_when_they_are_old() {
    let world = World::new();
    let engine = world.engine();
    let large = "x".repeat(50_000);
    assert!(call(&engine, "k").once(move |_| async move { Ok::<_, Failed>(large) }).await.is_ok());
    let owner = id(&engine, "k");
    world.memory.put_body(&owner, BodyId([1; 32]), "orphan".into()).await.unwrap();
    world.memory.put_body(&Id([3; 32]), BodyId([2; 32]), "of nobody".into()).await.unwrap();
    assert_eq!(engine.sweep().await.unwrap().orphans, 0, "they may belong to a write under way");
    sleep(3_600_000).await;
    world.memory.put_body(&owner, BodyId([4; 32]), "young".into()).await.unwrap();
    assert_eq!(engine.sweep().await.unwrap().orphans, 2);
    assert_eq!(world.memory.bodies(None, 10).await.unwrap().items.len(), 2);
    assert_eq!(never(call(&engine, "k")).await.unwrap().value.len(), 50_000);
    assert!(world.memory.get_body(BodyId([4; 32])).await.unwrap().is_some());
}

/// One record is damaged. The sweeper passes it by and does its work on all others.
#[tokio::test(start_paused = true)]
async fn a_damaged_record_does_not_stop_the_sweeper() {
    let world = World::new();
    let engine = world.engine();
    let first = begin(call(&engine, "damaged")).await;
    let stored = world.stored(&first.id()).await;
    let mut damaged = stored.record.unwrap();
    damaged.payload = bytes::Bytes::from_static(b"not a record");
    let _written = world.memory.swap(&first.id(), stored.version, Some(damaged)).await.unwrap();
    sleep(1).await;
    let other = begin(call(&engine, "other").not_started()).await;
    sleep(61_000).await;
    let swept = engine.sweep().await;
    assert!(world.stored(&other.id()).await.record.is_none(), "the others are swept: {swept:?}");
}

/// In the background it passes by itself, probes included, and stops when it is dropped.
#[tokio::test(start_paused = true)]
async fn the_sweeper_passes_by_itself_until_it_is_dropped() {
    let world = World::new();
    let applied = |_: Doubt| async { Found::Applied(done("\"applied\"")) };
    let engine = world.builder().probe("pay", applied).build().unwrap();
    let sweeper = engine.sweep_in_background();
    let ticket = begin(call(&engine, "k")).await;
    sleep(80_000).await;
    assert_eq!(state(&engine, &ticket.id()).await, StateName::Committed);
    drop(sweeper);
    sleep(1_000).await;
    let before = world.store.scans.load(SeqCst);
    sleep(100_000).await;
    assert_eq!(world.store.scans.load(SeqCst), before);
}

/// The store fails under the sweeper: that pass ends, the next one does the work.
#[tokio::test(start_paused = true)]
async fn a_failed_pass_is_made_up_for_by_the_next() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k").not_started()).await;
    let _sweeper = engine.sweep_in_background();
    sleep(55_000).await;
    world.store.mood(Mood::Down);
    sleep(60_000).await;
    assert!(world.stored(&ticket.id()).await.record.is_some());
    world.store.mood(Mood::Well);
    sleep(12_000).await;
    assert!(world.stored(&ticket.id()).await.record.is_none());
}
