//! Groups and turns on the real engine: who may still start, and what a supersede is told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use hapax_core::{
    Effect, Millis, Nonce, StateName, Verdict,
    command::Release,
    group::{GroupPhase, WhyNot},
};
use hapax_engine::{Begun, Call, Engine, GroupError, GroupHandle, OnceError, Progress, Stepped, Turn};
use hapax_store::Seeded;
use support::{Failed, World, begin, done, id, never, pay, policy, settle, soon, state, ticket};

const LISTED: [Effect; 2] = [Effect::Compensatable, Effect::Irreversible];

fn member(engine: &Engine, key: &str, turn: &Turn, effect: Effect) -> Call {
    support::call(engine, key).effect(effect).in_turn(turn)
}

async fn group(engine: &Engine, name: &str) -> (GroupHandle, Turn) {
    let group = engine.group("acme", name).unwrap();
    let turn = group.create().await.unwrap();
    (group, turn)
}

fn why(error: &GroupError) -> WhyNot {
    let GroupError::Refused { why, .. } = error else { panic!("{error}") };
    *why
}

/// The turn was superseded: its late call must not take effect, whichever class it has, and must leave nothing behind.
#[tokio::test(start_paused = true)]
async fn a_superseded_turns_late_call_is_fenced_before_its_effect() {
    for effect in Effect::ALL {
        let world = World::new();
        let engine = world.engine();
        let (group, old) = group(&engine, "talk").await;
        let superseded = group.supersede().await.unwrap();
        assert_eq!((superseded.turn.epoch(), superseded.started.len()), (2, 0));
        let late = never(member(&engine, "refund-123", &old, effect)).await;
        assert!(matches!(late, Err(OnceError::Superseded)), "{late:?}");
        assert_eq!(state(&engine, &id(&engine, "refund-123")).await, StateName::Absent);
        let new = pay(member(&engine, "refund-123", &superseded.turn, effect), "paid").await.unwrap();
        assert_eq!((new.value.as_str(), new.attempt), ("paid", 1));
        // What is recorded is given to anybody who asks, superseded or not.
        let again = never(member(&engine, "refund-123", &old, effect)).await.unwrap();
        assert!(again.replayed);
    }
}

/// G1: begin with `started = true` passes the epoch check, supersede scans, and only then the begin is written. It is a
/// start: checked after the write, before the ticket is given.
#[tokio::test(start_paused = true)]
async fn g1_a_begin_that_is_a_start_is_checked_after_its_write() {
    for effect in Effect::ALL {
        let world = World::new();
        let engine = world.engine();
        let (group, turn) = group(&engine, "talk").await;
        // The look before the begin is answered with what was true then, and its write comes after the supersede.
        let gate = world.store.hold_gets();
        let late = tokio::spawn(member(&engine, "k", &turn, effect).begin());
        settle().await;
        world.store.hold_nothing();
        let superseded = soon(group.supersede()).await.unwrap();
        assert!(superseded.started.is_empty());
        gate.add_permits(100);
        let told = soon(late).await.unwrap().unwrap();
        assert!(matches!(told, Begun::Told(Verdict::Fenced)), "{effect}: {told:?}");
        assert_eq!(state(&engine, &id(&engine, "k")).await, StateName::Absent, "{effect}");
    }
}

/// G2: supersede reports a start that is then taken back. A report means *may have started*; for effects that cannot be
/// taken for harmless it is never both.
#[tokio::test(start_paused = true)]
async fn g2_a_report_means_may_have_started_and_is_never_both_where_it_counts() {
    for effect in Effect::ALL {
        let world = World::new();
        let engine = world.engine();
        let (group, turn) = group(&engine, "talk").await;
        let ticket = begin(member(&engine, "k", &turn, effect).not_started()).await;
        // The mark is written, and its answer is held up while the group is superseded.
        let gate = world.store.hold_swaps();
        let starting = tokio::spawn({
            let (engine, ticket) = (engine.clone(), ticket.clone());
            async move { ticket.start(&engine).await }
        });
        settle().await;
        world.store.hold_nothing();
        let superseded = soon(group.supersede()).await.unwrap();
        gate.add_permits(100);
        let started = soon(starting).await.unwrap().unwrap();
        assert!(matches!(started, Stepped::Fenced), "{effect}: {started:?}");
        let reported = superseded.started.iter().any(|reported| reported.member == ticket.id());
        assert_eq!(reported, !LISTED.contains(&effect), "{effect}");
        for reported in &superseded.started {
            assert_eq!(soon(engine.follow(&reported.member)).await.unwrap(), Progress::Gone, "followed to its end");
        }
        assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent, "the mark was taken back");
    }
}

/// G3: the lease lapses between the mark and the group's refusal. Nothing ran, so nobody may be left in doubt.
#[tokio::test(start_paused = true)]
async fn g3_a_refused_start_is_taken_back_after_the_lapse_too() {
    for effect in Effect::ALL {
        let world = World::new();
        let engine = world.engine();
        let (group, turn) = group(&engine, "talk").await;
        let ticket = begin(member(&engine, "k", &turn, effect).not_started()).await;
        let gate = world.store.hold_swaps();
        let starting = tokio::spawn({
            let (engine, ticket) = (engine.clone(), ticket.clone());
            async move { ticket.start(&engine).await }
        });
        settle().await;
        world.store.hold_nothing();
        soon(group.supersede()).await.unwrap();
        world.clock.jump(3_600_000);
        let lapsed = if effect.may_rerun() { StateName::Open } else { StateName::InDoubt };
        assert_eq!(state(&engine, &ticket.id()).await, lapsed, "{effect}");
        gate.add_permits(100);
        assert!(matches!(soon(starting).await.unwrap().unwrap(), Stepped::Fenced), "{effect}");
        assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent, "{effect}");
    }
}

/// G4: unwind looks at the members; then one begins and starts. Its effect would be outside the plan.
#[tokio::test(start_paused = true)]
async fn g4_nothing_starts_once_the_group_is_being_undone() {
    for effect in Effect::ALL {
        let world = World::new();
        let engine = world.engine();
        let (group, turn) = group(&engine, "saga").await;
        let admitted = begin(member(&engine, "early", &turn, effect).not_started()).await;
        group.commit().await.unwrap();
        let fine = begin(member(&engine, "after-commit", &turn, effect)).await;
        assert!(fine.release(&engine, Release::NoEffect).await.unwrap().is_done());
        let unwound = group.unwind(&hapax_engine::Compensations::default()).await.unwrap();
        assert!(unwound.is_over(), "{unwound:?}");
        assert!(matches!(admitted.start(&engine).await.unwrap(), Stepped::Fenced), "{effect}");
        assert!(matches!(never(member(&engine, "late", &turn, effect)).await, Err(OnceError::Superseded)), "{effect}");
        assert_eq!(state(&engine, &id(&engine, "late")).await, StateName::Absent);
    }
}

/// The answers of the store to a start's check are lost. Whatever the caller is told, it never runs unreported.
#[tokio::test(start_paused = true)]
async fn a_start_that_cannot_ask_its_group_does_not_run_and_is_taken_back() {
    let world = World::new();
    let engine = world.engine();
    let (_group, turn) = group(&engine, "talk").await;
    let gate = world.store.hold_swaps();
    let starting = tokio::spawn(member(&engine, "k", &turn, Effect::Compensatable).begin());
    settle().await;
    world.store.hold_nothing();
    world.store.mood(support::Mood::Down);
    gate.add_permits(100);
    assert!(soon(starting).await.unwrap().is_err());
    world.store.mood(support::Mood::Well);
    for _ in 0..200 {
        support::sleep(1_000).await;
        if state(&engine, &id(&engine, "k")).await == StateName::Absent {
            return;
        }
    }
    panic!("what nobody was told about was left behind");
}

#[tokio::test(start_paused = true)]
async fn an_irreversible_start_is_a_commit_point_and_says_why() {
    let world = World::new();
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    assert_eq!(group.may_supersede().await.unwrap(), Ok(()));
    group.absorb(&turn).await.unwrap();
    pay(member(&engine, "wire", &turn, Effect::Irreversible), "sent").await.unwrap();
    let committed = WhyNot::Committed { by: Some(id(&engine, "wire")) };
    assert_eq!(group.may_supersede().await.unwrap(), Err(committed));
    assert_eq!(why(&group.supersede().await.unwrap_err()), committed);
    assert_eq!(why(&group.absorb(&turn).await.unwrap_err()), committed);
    // QUEUE, and FORCE_COMPLETE: the later message is a turn of a group of its own, in which the same key is new.
    let queued = group.fork("talk-2").await.unwrap();
    assert_eq!(queued.epoch(), 1);
    let forced = group.force_complete("talk-3").await.unwrap();
    assert_ne!(queued.group(), forced.group());
    let view = engine.group("acme", "talk-3").unwrap().view().await.unwrap().unwrap();
    assert_eq!(view.group.parent, Some(group.id()));
    pay(member(&engine, "wire-back", &turn, Effect::Irreversible), "sent").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_supersede_said_twice_is_one_and_reports_the_same() {
    let world = World::new();
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    for effect in [Effect::Pure, Effect::Unsafe, Effect::Compensatable] {
        pay(member(&engine, effect.name(), &turn, effect), "done").await.unwrap();
    }
    let running = begin(member(&engine, "running", &turn, Effect::Unsafe)).await;
    let nonce = Nonce([7; 16]);
    let first = group.supersede_with(nonce).await.unwrap();
    let again = group.supersede_with(nonce).await.unwrap();
    assert_eq!((first.turn.epoch(), again.turn.epoch()), (2, 2));
    assert!(!first.already && again.already);
    let mut progress: Vec<Progress> = first.started.iter().map(|reported| reported.progress).collect();
    progress.sort_by_key(|progress| *progress == Progress::Running);
    assert_eq!(progress, [Progress::Committed, Progress::Committed, Progress::Committed, Progress::Running]);
    assert_eq!(first.started.len(), again.started.len());
    // Supersede never touches what has started: it is followed, and ends as it ends.
    let following = tokio::spawn({
        let (engine, id) = (engine.clone(), running.id());
        async move { engine.follow(&id).await }
    });
    settle().await;
    assert!(running.complete(&engine, done("yes")).await.unwrap().is_done());
    assert_eq!(soon(following).await.unwrap().unwrap(), Progress::Committed);
}

/// A followed member whose process died is followed to its lapse, although nothing is written then.
#[tokio::test(start_paused = true)]
async fn a_member_whose_owner_died_is_followed_to_its_lapse() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.lease = Millis::from_secs(30)));
    let (group, turn) = group(&engine, "talk").await;
    let lost = begin(member(&engine, "k", &turn, Effect::Unsafe)).await;
    let reported = group.supersede().await.unwrap().started;
    assert_eq!(reported[0].progress, Progress::Running);
    assert_eq!(soon(engine.follow(&lost.id())).await.unwrap(), Progress::InDoubt);
}

/// C12 with a real group: the corrected call of the newer turn takes over what the older one had only admitted.
#[tokio::test(start_paused = true)]
async fn a_newer_turn_takes_over_what_an_older_one_had_not_started() {
    let world = World::new();
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    let admitted =
        begin(member(&engine, "refund", &turn, Effect::Irreversible).fingerprint("10 EUR").not_started()).await;
    let newer = group.supersede().await.unwrap().turn;
    let corrected = member(&engine, "refund", &newer, Effect::Irreversible).fingerprint("20 EUR");
    assert_eq!(pay(corrected, "20 EUR back").await.unwrap().attempt, 2);
    assert!(matches!(admitted.start(&engine).await.unwrap(), Stepped::Fenced));
}

#[tokio::test(start_paused = true)]
async fn another_tenants_turn_is_no_use() {
    let world = World::new();
    let engine = world.engine();
    let (_, turn) = group(&engine, "talk").await;
    let other = engine.surface("pay").tenant("other").key("k").in_turn(&turn);
    assert!(matches!(never(other).await, Err(OnceError::Engine(_))));
    // Nor does the same name lead to the same group.
    let theirs = engine.group("other", "talk").unwrap();
    assert_eq!(theirs.view().await.unwrap(), None);
}

/// A conversation is closed, and all that it kept goes when its time is over: the group too, and not before its members.
#[tokio::test(start_paused = true)]
async fn a_closed_group_goes_after_its_members_and_not_before() {
    let world = World::new();
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    let call = member(&engine, "k", &turn, Effect::Unsafe).compensated_by("undo", &1);
    pay(call, "done").await.unwrap();
    // Longer than its retention of a day: it may still have to be undone.
    world.clock.jump(30 * 86_400_000);
    engine.sweep().await.unwrap();
    assert_eq!(state(&engine, &id(&engine, "k")).await, StateName::Committed);
    assert!(never(member(&engine, "k", &turn, Effect::Unsafe)).await.unwrap().replayed);
    let again = member(&engine, "k2", &turn, Effect::Unsafe).compensated_by("undo", &1);
    pay(again, "done").await.unwrap();
    group.close().await.unwrap();
    assert_eq!(state(&engine, &id(&engine, "k")).await, StateName::Absent, "its day was long over");
    assert!(matches!(never(member(&engine, "late", &turn, Effect::Pure)).await, Err(OnceError::Superseded)));
    for _ in 0..3 {
        let (kept, view) = (state(&engine, &id(&engine, "k2")).await, group.view().await.unwrap());
        assert!(kept == StateName::Absent || view.is_some(), "the group went before its member");
        world.clock.jump(86_400_000 / 2);
        engine.sweep().await.unwrap();
    }
    world.clock.jump(86_400_000);
    assert_eq!(group.view().await.unwrap(), None);
    engine.sweep().await.unwrap();
    assert!(world.stored(&group.id()).await.record.is_none(), "the sweeper takes it away");
}

/// The process that closes a group dies half-way. What was held would be held for ever.
#[tokio::test(start_paused = true)]
async fn a_closing_that_was_cut_short_is_gone_on_with_by_the_sweeper() {
    let world = World::new();
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    for number in 0..5 {
        let call = member(&engine, &format!("k{number}"), &turn, Effect::Unsafe).compensated_by("undo", &1);
        pay(call, "done").await.unwrap();
    }
    let gate = world.store.hold_swaps();
    let closing = tokio::spawn({
        let group = group.clone();
        async move { group.close().await }
    });
    gate.add_permits(3);
    settle().await;
    closing.abort();
    world.store.hold_nothing();
    assert_eq!(group.view().await.unwrap().unwrap().group.phase, GroupPhase::Closing);
    world.clock.jump(86_400_000 + 1);
    engine.sweep().await.unwrap();
    assert!(matches!(group.view().await.unwrap().unwrap().group.phase, GroupPhase::Closed { .. }));
    for number in 0..5 {
        assert_eq!(state(&engine, &id(&engine, &format!("k{number}"))).await, StateName::Absent);
    }
}

/// A thousand real races between a start and a supersede, on real threads: started and reported, or refused; never
/// neither, and where it counts never both.
///
/// How long a thread takes to wake differs between machines by more than the race is long. So whoever lost a round gets a
/// longer lead in the next: the two stay close on every machine, and each wins often.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_races_of_start_and_supersede() {
    let seed = Seeded::seed_or(7);
    println!("HAPAX_SEED={seed}");
    let mut dice = Seeded::new(seed);
    let world = World::new();
    let engine = world.engine();
    let (mut both, mut refused, mut started_early) = ([0_u32; 5], 0_u32, 0_u32);
    // Above zero the start has the lead, below it the supersede.
    let mut lead = 0_i64;
    for round in 0..1_000_u32 {
        let effect = Effect::ALL[round as usize % 5];
        let name = format!("race-{round}");
        let (group, turn) = group(&engine, &name).await;
        let ran = Arc::new(AtomicU32::new(0));
        let admitted_first = dice.next().is_multiple_of(2);
        let step = i64::try_from(dice.next() % 4_000).unwrap();
        let starting = tokio::spawn({
            let (engine, ran) = (engine.clone(), Arc::clone(&ran));
            async move {
                let call = member(&engine, &name, &turn, effect);
                let call = if admitted_first { call.not_started() } else { call };
                spin(-lead);
                let effect = move |_| async move {
                    ran.fetch_add(1, SeqCst);
                    Ok::<_, Failed>("ran".to_owned())
                };
                call.once_inline(effect).await
            }
        });
        spin(lead);
        let superseded = match group.supersede().await {
            Ok(superseded) => superseded.started,
            // An irreversible effect had started: the supersede itself was refused, and says by what.
            Err(error) => {
                assert!(matches!(why(&error), WhyNot::Committed { by: Some(_) }), "round {round}: {error}");
                assert_eq!(effect, Effect::Irreversible);
                assert!(starting.await.unwrap().is_ok(), "round {round}");
                started_early += 1;
                lead -= step;
                continue;
            }
        };
        let outcome = starting.await.unwrap();
        let started = ran.load(SeqCst) == 1;
        let reported = !superseded.is_empty();
        assert_eq!(started, outcome.is_ok(), "round {round}: {outcome:?}");
        assert!(
            started || matches!(outcome, Err(OnceError::Superseded | OnceError::LeaseLost)),
            "round {round}: {outcome:?}"
        );
        assert!(!started || reported, "round {round}, {effect}: started, and neither reported nor refused");
        if reported && !started {
            assert!(!LISTED.contains(&effect), "round {round}, {effect}: reported and refused");
            both[effect as usize] += 1;
        }
        refused += u32::from(!started);
        started_early += u32::from(started);
        lead += if started { -step } else { step };
    }
    println!("{started_early} started, {refused} refused, reported and taken back by class: {both:?}");
    assert!(started_early > 50 && refused > 50, "the race was none: {started_early} started, {refused} refused");
}

/// Keeps the thread busy; below zero not at all.
fn spin(turns: i64) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

/// A group outlives restarts of whoever asks: the turn is rebuilt from its number.
#[tokio::test(start_paused = true)]
async fn a_turn_is_found_again_by_its_number() {
    let world = World::new();
    let engine = world.engine();
    let (group, _) = group(&engine, "talk").await;
    let newer = group.supersede().await.unwrap().turn;
    let other = world.engine();
    let found = other.group("acme", "talk").unwrap();
    assert_eq!(found.create().await.unwrap(), newer);
    assert_eq!(found.turn(2), newer);
    assert_eq!(found.may_start(&found.turn(1)).await.unwrap(), Err(WhyNot::Superseded { current: 2 }));
    let given = tokio::time::timeout(Duration::from_secs(5), pay(member(&other, "k", &newer, Effect::Pure), "x")).await;
    assert_eq!(given.unwrap().unwrap().value, "x");
    let held = ticket(member(&other, "k2", &newer, Effect::Unsafe).not_started().begin().await.unwrap());
    assert!(other.start(&held.id(), held.token()).await.unwrap().is_done());
    found.supersede().await.unwrap();
    // Said again by its owner, who may be at it: fenced, and left to that owner.
    assert!(matches!(other.start(&held.id(), held.token()).await.unwrap(), Stepped::Fenced));
    assert_eq!(state(&other, &held.id()).await, StateName::Pending);
}

/// The answer to a begin is lost, the turn is superseded, and the caller comes back with its nonce. What had landed must
/// not stay behind to lapse into doubt: nobody ran under it.
#[tokio::test(start_paused = true)]
async fn an_overtaken_caller_leaves_no_earlier_begin_of_its_own_behind() {
    for started in [true, false] {
        let world = World::new();
        let engine = world.engine();
        let (group, turn) = group(&engine, "talk").await;
        let nonce = Nonce([9; 16]);
        let call = || {
            let call = member(&engine, "k", &turn, Effect::Unsafe);
            if started { call } else { call.not_started() }
        };
        let unheard = ticket(call().begin_with(nonce).await.unwrap());
        group.supersede().await.unwrap();
        let again = call().begin_with(nonce).await.unwrap();
        assert!(matches!(again, Begun::Told(Verdict::Fenced)), "{again:?}");
        assert_eq!(state(&engine, &unheard.id()).await, StateName::Absent);
    }
}
