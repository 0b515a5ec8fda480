//! The accidents that were found on paper, driven through the real engine over a store in front of which they happen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use crate::support::*;
use hapax_core::{
    Cause, Effect, Millis, Nonce, OutcomeClass, StateName, Verdict, Version,
    command::{Posture, Release, Resolution, Resolve},
};
use hapax_engine::{Begun, Call, Doubt, Found, OnceError, Probed, Settings, Stepped, Wait};
use hapax_store::{Fault, Landing, Plan, Swap};

fn impatient() -> Settings {
    Settings { store_retries: 0, ..settings() }
}

async fn primed(world: &World, settings: Settings) -> hapax_engine::Engine {
    let engine = world.builder().settings(settings).build().unwrap();
    assert!(pay(call(&engine, "first"), "so that the usage is known").await.is_ok());
    engine
}

// C1 is in capacity.rs: it needs eviction.

/// C2. Begin times out with its write in flight; the same nonce gets its ticket and releases; the old write lands in
/// the empty slot and nobody owns it. Absence has a version, so it conflicts.
#[tokio::test(start_paused = true)]
async fn c2_a_late_begin_cannot_land_behind_a_release() {
    let world = World::new();
    let engine = primed(&world, impatient()).await;
    let nonce = Nonce([7; 16]);
    world.faulty.script(Fault::Late(Landing::Released));
    assert!(call(&engine, "k").begin_with(nonce).await.is_err());
    assert_eq!(world.faulty.waiting(), 1);
    let ticket = ticket(call(&engine, "k").begin_with(nonce).await.unwrap());
    assert!(ticket.release(&engine, Release::NoEffect).await.unwrap().is_done());
    assert_eq!(world.faulty.release_late().await.unwrap(), 0, "it landed behind the release");
    assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent);
}

/// C3. The engine reads absent and calls the unknown begin settled; then the write lands. Disowning is a write.
#[tokio::test(start_paused = true)]
async fn c3_a_begin_given_up_cannot_land_later() {
    let world = World::new();
    let engine = primed(&world, impatient()).await;
    world.faulty.script(Fault::Late(Landing::Released));
    assert!(call(&engine, "k").begin().await.is_err());
    sleep(1_000).await;
    assert_eq!(engine.stats().disowned, 1);
    assert_eq!(world.faulty.release_late().await.unwrap(), 0, "it landed although nobody waits for it");
    assert!(pay(call(&engine, "k"), "v").await.is_ok());
}

/// C3, the other half. The write had landed when the engine gave up: it is taken back, and the key is free.
#[tokio::test(start_paused = true)]
async fn c3_a_begin_that_landed_and_was_given_up_is_taken_back() {
    let world = World::new();
    let engine = primed(&world, impatient()).await;
    world.faulty.script(Fault::After);
    assert!(call(&engine, "k").begin().await.is_err());
    assert!(world.stored(&id(&engine, "k")).await.record.is_some());
    sleep(1_000).await;
    assert_eq!(state(&engine, &id(&engine, "k")).await, StateName::Absent);
}

/// C3 after a Mismatch. A begin of unknown fate is followed by another verdict: its write is still due, and must not
/// land once the other request has gone.
#[tokio::test(start_paused = true)]
async fn c3_a_mismatch_after_a_time_out_still_disowns() {
    let world = World::new();
    let engine = primed(&world, settings()).await;
    world.faulty.script(Fault::Late(Landing::Released));
    let mine = tokio::spawn(call(&engine, "k").fingerprint("mine").wait(Wait::No).begin());
    tokio::task::yield_now().await;
    // Somebody else is quicker, while the first answer is awaited.
    let other = begin(call(&engine, "k").fingerprint("other")).await;
    assert!(matches!(mine.await.unwrap().unwrap(), Begun::Told(Verdict::Mismatch)));
    assert!(other.release(&engine, Release::NoEffect).await.unwrap().is_done());
    sleep(1_000).await;
    assert_eq!(world.faulty.release_late().await.unwrap(), 0);
    assert_eq!(state(&engine, &other.id()).await, StateName::Absent);
}

/// The store is away for long after a begin of unknown fate, and then back: the key can be used, whatever landed.
#[tokio::test(start_paused = true)]
async fn a_long_outage_after_a_lost_begin_poisons_nothing() {
    for (fault, outage) in
        [(Fault::After, 120_000), (Fault::Late(Landing::Released), 120_000), (Fault::After, 3_600_000)]
    {
        let world = World::remembering(Plan::quiet(), Millis::from_hours(24));
        let engine = primed(&world, impatient()).await;
        world.faulty.script(fault);
        // The store is down before the caller learns that its begin was lost.
        let held = world.store.hold_swaps();
        let lost = tokio::spawn(call(&engine, "k").begin());
        sleep(1).await;
        world.store.mood(Mood::Down);
        world.store.hold_nothing();
        held.add_permits(1);
        assert!(lost.await.unwrap().is_err());
        sleep(outage).await;
        world.store.mood(Mood::Well);
        sleep(20_000).await;
        assert_eq!(world.faulty.release_late().await.unwrap(), 0, "{fault:?}");
        assert!(pay(call(&engine, "k").fingerprint("anything"), "v").await.is_ok(), "{fault:?} {outage}");
    }
}

/// A begin whose reply was lost, repeated with the same nonce, gives the same ticket.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_repeated_with_its_nonce_gives_the_same_ticket() {
    let world = World::new();
    let engine = primed(&world, impatient()).await;
    let nonce = Nonce([9; 16]);
    world.faulty.script(Fault::After);
    assert!(call(&engine, "k").begin_with(nonce).await.is_err());
    let fence = world.stored(&id(&engine, "k")).await.version;
    let first = ticket(call(&engine, "k").begin_with(nonce).await.unwrap());
    let again = ticket(call(&engine, "k").begin_with(nonce).await.unwrap());
    assert_eq!((first.token(), first.fence()), (again.token(), again.fence()));
    assert_eq!((first.attempt(), first.fence()), (1, fence));
    assert!(matches!(call(&engine, "k").wait(Wait::No).begin().await.unwrap(), Begun::Told(Verdict::InFlight { .. })));
    sleep(1_000).await;
    assert_eq!(state(&engine, &first.id()).await, StateName::Pending, "it is never taken back behind its caller");
}

/// A completion lands, its answer is lost, and the store stays away until the lease is over. For the ticket its attempt
/// has lapsed and left nothing behind; the record knows better, and is what is asked.
#[tokio::test(start_paused = true)]
async fn a_completion_said_again_after_its_lease_is_recognised() {
    let world = World::remembering(Plan::quiet(), Millis::from_hours(24));
    let engine = primed(&world, impatient()).await;
    let ticket = begin(call(&engine, "k").not_started()).await;
    let held = world.store.hold_swaps();
    world.faulty.script(Fault::After);
    let (again, other) = (ticket.clone(), engine.clone());
    let lost = tokio::spawn(async move { again.complete(&other, done("1")).await });
    sleep(1).await;
    world.store.mood(Mood::Down);
    world.store.hold_nothing();
    held.add_permits(1);
    assert!(lost.await.unwrap().is_err());
    sleep(120_000).await;
    world.store.mood(Mood::Well);
    assert!(ticket.complete(&engine, done("1")).await.unwrap().is_done());
    assert_eq!(state(&engine, &ticket.id()).await, StateName::Committed);
}

/// C4. Start times out in flight; the lease lapses; release answers "already" without writing; the late start lands
/// and there is a doubt without an owner. A release by the token that is still named always writes.
#[tokio::test(start_paused = true)]
async fn c4_a_late_start_cannot_land_behind_a_release() {
    let world = World::new();
    let engine = primed(&world, impatient()).await;
    let ticket = begin(call(&engine, "k").not_started()).await;
    world.faulty.script(Fault::Late(Landing::Released));
    assert!(ticket.start(&engine).await.is_err());
    sleep(61_000).await;
    assert!(matches!(ticket.start(&engine).await.unwrap(), Stepped::Fenced));
    assert!(ticket.release(&engine, Release::BeforeStart).await.unwrap().is_done());
    assert_eq!(world.faulty.release_late().await.unwrap(), 0, "the start landed after the release");
    assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent);
}

/// C5. Begin applied, reply lost, the lease lapses; the same caller comes back and is told InDoubt though nothing ran.
#[tokio::test(start_paused = true)]
async fn c5_the_same_nonce_gets_its_ticket_also_from_a_lapse() {
    for sweep in [false, true] {
        let world = World::new();
        let engine = primed(&world, impatient()).await;
        let nonce = Nonce([5; 16]);
        world.faulty.script(Fault::After);
        assert!(call(&engine, "k").begin_with(nonce).await.is_err());
        sleep(61_000).await;
        if sweep {
            engine.sweep().await.unwrap();
        }
        assert!(matches!(call(&engine, "k").begin().await.unwrap(), Begun::Told(Verdict::InDoubt { .. })));
        let ticket = ticket(call(&engine, "k").begin_with(nonce).await.unwrap());
        assert_eq!(ticket.attempt(), 1);
        assert!(ticket.complete(&engine, done("1")).await.unwrap().is_done());
    }
}

/// C5b. A restarted process that reused a stored nonce would run again. The engine's own nonces are fresh, each time.
#[tokio::test(start_paused = true)]
async fn c5b_every_begin_brings_a_fresh_nonce() {
    let world = World::new();
    let engine = world.engine();
    let mut seen = std::collections::HashSet::new();
    for attempt in 1..=200 {
        let ticket = begin(call(&engine, "k").effect(Effect::Pure)).await;
        assert_eq!(ticket.attempt(), attempt);
        assert!(seen.insert(ticket.token().nonce.0));
        assert!(ticket.fail(&engine, retryable("no")).await.unwrap().is_done());
    }
}

/// C6. The lease lapses; the owner then says "no effect" or "retryable" and would be refused: an operator needed for
/// nothing. Both are taken late.
#[tokio::test(start_paused = true)]
async fn c6_the_owners_word_is_taken_late() {
    for sweep in [false, true] {
        let world = World::new();
        let engine = world.engine();
        let (released, failed) = (begin(call(&engine, "released")).await, begin(call(&engine, "failed")).await);
        sleep(61_000).await;
        if sweep {
            engine.sweep().await.unwrap();
        }
        assert_eq!(state(&engine, &released.id()).await, StateName::InDoubt);
        let late = released.release(&engine, Release::NoEffect).await.unwrap();
        assert!(matches!(late, Stepped::Done(done) if done.late));
        assert_eq!(state(&engine, &released.id()).await, StateName::Absent);
        let late = failed.fail(&engine, retryable("busy")).await.unwrap();
        assert!(matches!(late, Stepped::Done(done) if done.late));
        assert_eq!(state(&engine, &failed.id()).await, StateName::Open);
    }
}

/// C7. Release applied, reply lost, repeated: no error.
#[tokio::test(start_paused = true)]
async fn c7_a_release_repeated_after_a_lost_reply_is_fine() {
    let world = World::new();
    let engine = primed(&world, impatient()).await;
    let ticket = begin(call(&engine, "k")).await;
    world.faulty.script(Fault::After);
    assert!(ticket.release(&engine, Release::NoEffect).await.is_err());
    assert!(ticket.release(&engine, Release::NoEffect).await.unwrap().is_done());
    let elsewhere = world.engine();
    let again = elsewhere.release(&ticket.id(), ticket.token(), Release::NoEffect).await.unwrap();
    assert!(matches!(again, Stepped::Done(done) if done.already));
}

/// C8. A waiter of request 1 wakes after a release and receives the answer of request 2 under the same key.
#[tokio::test(start_paused = true)]
async fn c8_a_waiter_never_gets_the_answer_to_another_request() {
    for complete_before_it_looks in [false, true] {
        let world = World::new();
        let engine = world.engine();
        let first = begin(call(&engine, "k").fingerprint("one")).await;
        let waiter = tokio::spawn(never(call(&engine, "k").fingerprint("one")));
        sleep(10).await;
        assert_eq!(engine.waiting(), 1);
        if complete_before_it_looks {
            // Nobody is told of the release before the other request is done.
            let held = world.store.hold_gets();
            assert!(first.release(&engine, Release::NoEffect).await.unwrap().is_done());
            let second = begin(call(&engine, "k").fingerprint("two")).await;
            assert!(second.complete(&engine, done("\"two\"")).await.unwrap().is_done());
            world.store.hold_nothing();
            held.add_permits(1_000);
        } else {
            assert!(first.release(&engine, Release::NoEffect).await.unwrap().is_done());
        }
        let told = waiter.await.unwrap();
        assert!(matches!(told, Err(OnceError::Mismatch | OnceError::InFlight { .. })), "{told:?}");
    }
}

/// C9. A probe says "not applied", the paused owner wakes and acts: two effects. *Not yet* is not enough to open it.
#[tokio::test(start_paused = true)]
async fn c9_not_applied_yet_stays_in_doubt() {
    let world = World::new();
    let engine = world.builder().probe("pay", |_: Doubt| async { Found::NotAppliedYet }).build().unwrap();
    let paused = begin(call(&engine, "k")).await;
    sleep(61_000).await;
    assert_eq!(engine.probe(&paused.id()).await.unwrap(), Probed::StillUnknown);
    assert!(matches!(never(call(&engine, "k")).await, Err(OnceError::InDoubt { .. })));
    let woke = paused.complete(&engine, done("\"it was only slow\"")).await.unwrap();
    assert!(matches!(woke, Stepped::Done(done) if done.late));
    assert_eq!(never(call(&engine, "k")).await.unwrap().value, "it was only slow");
}

/// C11. begin(started = false), crash: the corrected request would get Mismatch for a day.
#[tokio::test(start_paused = true)]
async fn c11_a_crash_before_the_start_leaves_no_fingerprint() {
    for sweep in [false, true] {
        let world = World::new();
        let engine = world.engine();
        drop(begin(call(&engine, "k").not_started().fingerprint("wrong")).await);
        sleep(61_000).await;
        if sweep {
            engine.sweep().await.unwrap();
        }
        let corrected = pay(call(&engine, "k").fingerprint("corrected"), "v").await.unwrap();
        assert_eq!(corrected.attempt, 1);
    }
}

/// C12. A newer epoch's corrected request would get Mismatch against a not-started older one. It takes over.
#[tokio::test(start_paused = true)]
async fn c12_a_newer_epoch_takes_over_what_has_not_started() {
    let world = World::new();
    let engine = world.engine();
    let older = begin(call(&engine, "k").not_started().fingerprint("old").epoch(1, 1)).await;
    let newer = begin(call(&engine, "k").fingerprint("new").epoch(2, 2)).await;
    assert_eq!(newer.attempt(), 2);
    assert!(matches!(older.start(&engine).await.unwrap(), Stepped::Fenced));
    assert!(matches!(older.complete(&engine, done("1")).await.unwrap(), Stepped::Fenced));
    let late = call(&engine, "other").epoch(1, 2).begin().await.unwrap();
    assert!(matches!(late, Begun::Told(Verdict::Fenced)));
    // What has started is never taken over.
    let told = call(&engine, "k").fingerprint("newest").epoch(3, 3).wait(Wait::No).begin().await.unwrap();
    assert!(matches!(told, Begun::Told(Verdict::Mismatch)));
}

/// C13. A late outcome arrives after the record is gone: fenced, an event, and no record is created.
#[tokio::test(start_paused = true)]
async fn c13_a_late_outcome_without_a_record_creates_none() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k")).await;
    let elsewhere = world.engine();
    assert!(elsewhere.release(&ticket.id(), ticket.token(), Release::NoEffect).await.unwrap().is_done());
    let long = hapax_core::Outcome::success(vec![b'x'; 100_000]);
    for outcome in [done("1"), long] {
        assert!(matches!(ticket.complete(&engine, outcome.clone()).await.unwrap(), Stepped::Fenced));
        assert!(matches!(elsewhere.complete(&ticket.id(), ticket.token(), outcome).await.unwrap(), Stepped::Fenced));
    }
    assert!(world.stored(&ticket.id()).await.record.is_none());
    let events = engine.events().of(&ticket.id());
    assert!(events.iter().any(|logged| logged.event.cause == Cause::Fenced));
}

/// S1. Start or renew after the lapse works only until the sweeper passes. Fenced in both cases, for every class.
#[tokio::test(start_paused = true)]
async fn s1_the_sweeper_changes_no_answer() {
    for effect in Effect::ALL {
        for started in [false, true] {
            let mut answers = Vec::new();
            for sweep in [false, true] {
                let world = World::new();
                let engine = world.engine();
                let with = |call: Call| if started { call } else { call.not_started() };
                let ticket = begin(with(call(&engine, "k").effect(effect))).await;
                sleep(61_000).await;
                if sweep {
                    engine.sweep().await.unwrap();
                }
                let elsewhere = world.engine();
                let mut told = vec![
                    format!("{:?}", ticket.start(&engine).await.unwrap()),
                    format!("{:?}", ticket.renew(&engine).await.unwrap()),
                    format!("{:?}", elsewhere.start(&ticket.id(), ticket.token()).await.unwrap()),
                    format!("{:?}", state(&elsewhere, &ticket.id()).await),
                ];
                assert!(told[..3].iter().all(|answer| answer == "Fenced"), "{effect} {started} {told:?}");
                if ticket.attempt() == 1 && !started {
                    assert_eq!(told[3], "Absent");
                }
                told.push(format!("{:?}", ticket.release(&engine, Release::BeforeStart).await.unwrap()));
                told.push(format!("{:?}", state(&elsewhere, &ticket.id()).await));
                answers.push(told);
            }
            assert_eq!(answers[0], answers[1], "{effect}, started: {started}");
        }
    }
}

/// A late completion by the latest attempt is taken, and told to be late.
#[tokio::test(start_paused = true)]
async fn a_late_completion_by_the_latest_attempt_is_taken() {
    for effect in Effect::ALL {
        let world = World::new();
        let engine = world.engine();
        let ticket = begin(call(&engine, "k").effect(effect)).await;
        sleep(600_000).await;
        let late = ticket.complete(&engine, done("\"late\"")).await.unwrap();
        assert!(matches!(late, Stepped::Done(done) if done.late && !done.already), "{effect}");
        assert_eq!(engine.stats().late, 1);
        assert_eq!(never(call(&engine, "k").effect(effect)).await.unwrap().value, "late");
    }
}

/// A completion by an older attempt is refused, said to be, and kept as evidence: a long body too, and it can be read.
#[tokio::test(start_paused = true)]
async fn a_completion_by_an_older_attempt_is_refused_and_kept() {
    let world = World::new();
    let engine = world.engine();
    let older = begin(call(&engine, "k").effect(Effect::Idempotent)).await;
    sleep(61_000).await;
    let newer = begin(call(&engine, "k").effect(Effect::Idempotent)).await;
    assert_eq!(newer.attempt(), 2);
    let small = done("small");
    let medium = hapax_core::Outcome::success(vec![b'm'; 2_000]);
    let large = hapax_core::Outcome::success(vec![b'l'; 200_000]);
    for outcome in [&small, &medium, &large, &large] {
        assert!(matches!(older.complete(&engine, outcome.clone()).await.unwrap(), Stepped::Fenced));
    }
    assert!(newer.complete(&engine, done("\"won\"")).await.unwrap().is_done());
    assert_eq!(never(call(&engine, "k")).await.unwrap().value, "won");
    let record = engine.explain(&older.id()).await.unwrap().record.unwrap();
    assert_eq!(record.evidence.len(), 3, "a repeat is kept once");
    for (kept, outcome) in record.evidence.iter().zip([small, medium, large]) {
        assert_eq!((kept.attempt, kept.outcome.digest()), (1, outcome.digest()));
        if let Some(body) = kept.outcome.stored_body() {
            let bytes = engine.store().get_body(body).await.unwrap().expect("the evidence can be read");
            assert!(hapax_core::Body::Inline(bytes.into()) == outcome.body);
        }
    }
    // More evidence than is kept pushes out the oldest, and its bodies with it.
    for number in 0..4_u8 {
        let outcome = hapax_core::Outcome::refusal(vec![number; 60_000]);
        assert!(matches!(older.reject(&engine, outcome).await.unwrap(), Stepped::Fenced));
    }
    let record = engine.explain(&older.id()).await.unwrap().record.unwrap();
    assert_eq!(record.evidence.len(), 4);
    let bodies = engine.store().bodies(None, 100).await.unwrap().items;
    assert_eq!(bodies.len(), 4, "what no longer is evidence is dropped");
}

/// An operation begun in one process is ended in another, by its token alone, and once.
#[tokio::test(start_paused = true)]
async fn begun_here_completed_there() {
    let world = World::new();
    let (here, there) = (world.engine(), world.engine());
    let ticket = begin(call(&here, "k").not_started()).await;
    let token = hapax_core::Token::parse(&ticket.token().to_text()).unwrap();
    assert!(there.start(&ticket.id(), token).await.unwrap().is_done());
    assert!(there.renew(&ticket.id(), token, SECOND).await.unwrap().is_done());
    assert!(there.complete(&ticket.id(), token, done("\"there\"")).await.unwrap().is_done());
    assert!(matches!(ticket.complete(&here, done("\"here\"")).await.unwrap(), Stepped::Conflict(_)));
    assert_eq!(never(call(&here, "k")).await.unwrap().value, "there");
    let forged = hapax_core::Token { attempt: 1, nonce: Nonce([0; 16]) };
    assert!(matches!(there.complete(&ticket.id(), forged, done("x")).await.unwrap(), Stepped::Fenced));
}

/// Somebody resolved while the owner still ran: the owner is fenced and its outcome kept.
#[tokio::test(start_paused = true)]
async fn an_owner_overtaken_by_a_resolution_is_told() {
    let world = World::new();
    let engine = world.engine();
    let ran = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&ran);
    let owner = tokio::spawn(call(&engine, "k").once(move |_| async move {
        sleep(5_000).await;
        counter.fetch_add(1, SeqCst);
        Ok::<_, Failed>("mine".to_owned())
    }));
    sleep(1_000).await;
    let version = engine.version(&id(&engine, "k")).await.unwrap();
    let resolve = Resolve {
        version,
        resolution: Resolution::Committed(done("\"decided\"")),
        actor: "ann".into(),
        reason: "the provider says so".into(),
    };
    assert!(engine.resolve(&id(&engine, "k"), resolve).await.unwrap().is_done());
    assert!(matches!(owner.await.unwrap(), Err(OnceError::Overtaken)));
    assert_eq!(never(call(&engine, "k")).await.unwrap().value, "decided");
    let record = engine.explain(&id(&engine, "k")).await.unwrap().record.unwrap();
    assert_eq!((record.evidence.len(), record.evidence[0].outcome.class), (1, OutcomeClass::Success));
    assert_eq!(ran.load(SeqCst), 1);
}

/// Opened by an operator and run again: the first owner's outcome comes too late and is kept beside the second's.
#[tokio::test(start_paused = true)]
async fn a_late_owner_after_it_was_opened_is_fenced() {
    let world = World::new();
    let engine = world.engine();
    let first = begin(call(&engine, "k")).await;
    sleep(61_000).await;
    let version = engine.version(&first.id()).await.unwrap();
    let open = Resolution::Open(Posture::OperatorAccepted);
    let resolve = Resolve { version, resolution: open, actor: "ann".into(), reason: "checked by hand".into() };
    assert!(engine.resolve(&first.id(), resolve).await.unwrap().is_done());
    assert!(matches!(first.complete(&engine, done("\"first\"")).await.unwrap(), Stepped::Fenced));
    let second = pay(call(&engine, "k"), "second").await.unwrap();
    assert_eq!(second.attempt, 2);
    let record = engine.explain(&first.id()).await.unwrap().record.unwrap();
    assert_eq!(record.evidence.len(), 1);
}

/// What a store promises about a swap is what all of this stands on: a version is never used twice.
#[tokio::test(start_paused = true)]
async fn absence_has_a_version_that_moves() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k")).await;
    assert!(ticket.release(&engine, Release::NoEffect).await.unwrap().is_done());
    let stored = world.stored(&ticket.id()).await;
    assert!(stored.record.is_none() && stored.version > ticket.fence());
    let late = engine.store().swap(&ticket.id(), Version::NEVER, None).await.unwrap();
    assert!(matches!(late, Swap::Conflict(_)));
}
