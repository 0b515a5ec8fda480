//! Who may still start in a group, and what a supersede is told: G1 to G4 of the accidents.

use hapax_core::{Effect, Nonce, StateName, Verdict, command::Release};
use hapax_engine::{Begun, Engine, OnceError, Progress, Stepped, Ticket};
use tokio::{sync::Semaphore, task::JoinHandle};

use super::*;

/// Starts, and is held up between its mark and the answer of its group.
pub(super) async fn held_up(world: &World, engine: &Engine, ticket: &Ticket) -> (Arc<Semaphore>, JoinHandle<Stepped>) {
    let gate = world.store.hold_swaps();
    let starting = tokio::spawn({
        let (engine, ticket) = (engine.clone(), ticket.clone());
        async move { ticket.start(&engine).await.unwrap() }
    });
    world.settle().await;
    world.store.hold_nothing();
    (gate, starting)
}

/// The turn was superseded: its late call must not take effect, whichever class it has, and must leave nothing behind.
pub async fn a_superseded_turns_late_call_is_fenced_before_its_effect(stage: &Stage) {
    for effect in Effect::ALL {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, old) = group(&engine, "talk").await;
        let superseded = group.supersede().await.unwrap();
        assert_eq!((superseded.turn.epoch(), superseded.started.len()), (old.epoch() + 1, 0));
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
pub async fn g1_a_begin_that_is_a_start_is_checked_after_its_write(stage: &Stage) {
    for effect in Effect::ALL {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, turn) = group(&engine, "talk").await;
        // The look before the begin is answered with what was true then, and its write comes after the supersede.
        let gate = world.store.hold_gets();
        let late = tokio::spawn(member(&engine, "k", &turn, effect).begin());
        world.settle().await;
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
pub async fn g2_a_report_means_may_have_started_and_is_never_both_where_it_counts(stage: &Stage) {
    for effect in Effect::ALL {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, turn) = group(&engine, "talk").await;
        let ticket = begin(member(&engine, "k", &turn, effect).not_started()).await;
        let (gate, starting) = held_up(&world, &engine, &ticket).await;
        let superseded = soon(group.supersede()).await.unwrap();
        gate.add_permits(100);
        let started = soon(starting).await.unwrap();
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
pub async fn g3_a_refused_start_is_taken_back_after_the_lapse_too(stage: &Stage) {
    for effect in Effect::ALL {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, turn) = group(&engine, "talk").await;
        let ticket = begin(member(&engine, "k", &turn, effect).not_started()).await;
        let (gate, starting) = held_up(&world, &engine, &ticket).await;
        soon(group.supersede()).await.unwrap();
        world.jump(3_600_000).await;
        let lapsed = if effect.may_rerun() { StateName::Open } else { StateName::InDoubt };
        assert_eq!(state(&engine, &ticket.id()).await, lapsed, "{effect}");
        gate.add_permits(100);
        assert!(matches!(soon(starting).await.unwrap(), Stepped::Fenced), "{effect}");
        assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent, "{effect}");
    }
}

/// G4: unwind looks at the members; then one begins and starts. Its effect would be outside the plan.
pub async fn g4_nothing_starts_once_the_group_is_being_undone(stage: &Stage) {
    for effect in Effect::ALL {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, turn) = group(&engine, "saga").await;
        let admitted = begin(member(&engine, "early", &turn, effect).not_started()).await;
        group.commit().await.unwrap();
        let fine = begin(member(&engine, "after-commit", &turn, effect)).await;
        assert!(fine.release(&engine, Release::NoEffect).await.unwrap().is_done());
        let unwound = group.unwind(&hapax_engine::Compensations::default()).await.unwrap();
        assert!(unwound.is_over(), "{unwound:?}");
        assert!(matches!(admitted.start(&engine).await.unwrap(), Stepped::Fenced), "{effect}");
        let late = never(member(&engine, "late", &turn, effect)).await;
        assert!(matches!(late, Err(OnceError::NotLetStart(_))), "{effect}: {late:?}");
        assert_eq!(state(&engine, &id(&engine, "late")).await, StateName::Absent);
    }
}

/// The answers of the store to a start's check are lost. Whatever the caller is told, it never runs unreported.
pub async fn a_start_that_cannot_ask_its_group_does_not_run_and_is_taken_back(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (_group, turn) = group(&engine, "talk").await;
    let gate = world.store.hold_swaps();
    let starting = tokio::spawn(member(&engine, "k", &turn, Effect::Compensatable).begin());
    world.settle().await;
    world.store.hold_nothing();
    world.store.mood(Mood::Down);
    gate.add_permits(100);
    assert!(soon(starting).await.unwrap().is_err());
    world.store.mood(Mood::Well);
    for _ in 0..2_000 {
        sleep(100).await;
        if state(&engine, &id(&engine, "k")).await == StateName::Absent {
            return;
        }
    }
    panic!("what nobody was told about was left behind");
}

/// The answer to a begin is lost, the turn is superseded, and the caller comes back with its nonce. What had landed must
/// not stay behind to lapse into doubt: nobody ran under it.
pub async fn an_overtaken_caller_leaves_no_earlier_begin_of_its_own_behind(stage: &Stage) {
    for started in [true, false] {
        let world = stage.world().await;
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

/// The owner of an effect that may be repeated dies at it, and its lease lapses: the operation is open to the next. Whether
/// it happened nobody knows, so the newer turn is told of it.
pub async fn what_lapsed_after_its_start_is_reported_although_it_is_open(stage: &Stage) {
    for effect in [Effect::Pure, Effect::Idempotent] {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, turn) = group(&engine, "talk").await;
        let lost = begin(member(&engine, "lost", &turn, effect)).await;
        let given_back = begin(member(&engine, "given-back", &turn, effect)).await;
        assert!(given_back.release(&engine, Release::NoEffect).await.unwrap().is_done());
        let admitted = begin(member(&engine, "admitted", &turn, effect).not_started()).await;
        world.jump(3_600_000).await;
        assert_eq!(state(&engine, &lost.id()).await, StateName::Open);
        let reported = group.supersede().await.unwrap().started;
        let reported: Vec<_> = reported.iter().map(|reported| (reported.member, reported.progress)).collect();
        assert_eq!(reported, [(lost.id(), Progress::Open)], "{effect}: not {}", admitted.id());
    }
}

/// A start is written and listed, and the answer is lost. The newer turn is told of it; then its caller says it again with
/// its nonce. What was reported must not be refused as well: the caller gets the ticket that it was given before.
pub async fn a_reported_start_is_not_refused_to_the_caller_that_says_it_again(stage: &Stage) {
    for lapses in [false, true] {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, turn) = group(&engine, "talk").await;
        let call = || member(&engine, "k", &turn, Effect::Compensatable);
        let unheard = ticket(call().begin_with(Nonce([9; 16])).await.unwrap());
        let reported = group.supersede().await.unwrap().started;
        assert_eq!(reported.iter().map(|reported| reported.member).collect::<Vec<_>>(), [unheard.id()]);
        if lapses {
            world.jump(3_600_000).await;
            engine.sweep().await.unwrap();
        }
        let again = ticket(call().begin_with(Nonce([9; 16])).await.unwrap());
        assert_eq!(again.token(), unheard.token());
        // Anybody else of that turn is still refused.
        let other = call().begin_with(Nonce([8; 16])).await.unwrap();
        assert!(matches!(other, Begun::Told(Verdict::Fenced | Verdict::InFlight { .. })), "{other:?}");
        assert!(again.complete(&engine, done("paid")).await.unwrap().is_done());
        assert_eq!(soon(engine.follow(&unheard.id())).await.unwrap(), Progress::Committed);
    }
}

/// The same with a group that is being undone: it waits for what is listed, so that must be allowed to come to its end.
pub async fn a_listed_start_can_be_said_again_while_its_group_is_undone(stage: &Stage) {
    for effect in LISTED {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, turn) = group(&engine, "saga").await;
        let call = || member(&engine, "k", &turn, effect).compensated_by("undo", &1);
        let unheard = ticket(call().begin_with(Nonce([9; 16])).await.unwrap());
        let no_patience = hapax_engine::UnwindOptions { wait: std::time::Duration::ZERO, ..Default::default() };
        let undo = hapax_engine::Compensations::default().on("undo", Effect::Unsafe, |_| async { Ok(()) });
        let not_yet = group.unwind_with(&undo, no_patience).await.unwrap();
        assert_eq!(not_yet, hapax_engine::Unwound::NotYet(vec![(unheard.id(), Progress::Running)]));
        let again = ticket(call().begin_with(Nonce([9; 16])).await.unwrap());
        assert!(again.complete(&engine, done("1")).await.unwrap().is_done());
        let unwound = group.unwind_with(&undo, no_patience).await.unwrap();
        assert!(unwound.is_over(), "{effect}: {unwound:?}");
    }
}

/// A start is marked, and the store is gone before the group can be asked. By the time it is asked again the turn was
/// superseded: the group had never let it through, so nobody is left in doubt.
pub async fn a_start_that_was_never_listed_leaves_no_doubt_when_it_is_said_again(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    let ticket = begin(member(&engine, "k", &turn, Effect::Compensatable).not_started()).await;
    let gate = world.store.hold_swaps();
    let starting = tokio::spawn({
        let (engine, ticket) = (engine.clone(), ticket.clone());
        async move { ticket.start(&engine).await }
    });
    world.settle().await;
    world.store.hold_nothing();
    world.store.mood(Mood::Down);
    gate.add_permits(100);
    assert!(soon(starting).await.unwrap().is_err());
    world.store.mood(Mood::Well);
    assert!(group.supersede().await.unwrap().started.is_empty());
    assert!(matches!(ticket.start(&engine).await.unwrap(), Stepped::Fenced));
    world.jump(3_600_000).await;
    assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent);
}
