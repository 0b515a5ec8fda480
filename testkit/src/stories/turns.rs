//! Groups and turns from their beginning to their end.

use std::time::Duration;

use hapax_core::{
    Effect, Millis, Nonce, StateName,
    group::{GroupPhase, WhyNot},
};
use hapax_engine::{Claimed, OnceError, Place, Progress, Stepped};

use super::*;

pub async fn an_irreversible_start_is_a_commit_point_and_says_why(stage: &Stage) {
    let world = stage.world().await;
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
    let forced = group.force_complete("talk-3").await.unwrap();
    assert_ne!(queued.group(), forced.group());
    let view = engine.group("acme", "talk-3").unwrap().view().await.unwrap().unwrap();
    assert_eq!(view.group.parent, Some(group.id()));
    pay(member(&engine, "wire-back", &turn, Effect::Irreversible), "sent").await.unwrap();
}

/// Whoever says how a transfer could be fetched back has not said that it may be overtaken.
pub async fn an_inverse_does_not_take_back_that_a_start_is_irreversible(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let wire = |turn: &Turn| member(&engine, "wire", turn, Effect::Irreversible).compensated_by("fetch-back", &1);
    let (talk, turn) = group(&engine, "talk").await;
    let begun = begin(wire(&turn)).await;
    let committed = WhyNot::Committed { by: Some(begun.id()) };
    assert_eq!(talk.may_supersede().await.unwrap(), Err(committed));
    assert_eq!(why(&talk.supersede().await.unwrap_err()), committed);

    let (run, turn) = group(&engine, "run").await;
    let place = Place { run: "run-1", node: "pay", ordinal: 0, provider: "bank:transfer" };
    let activity = || engine.activity("acme", &place).effect(Effect::Irreversible).in_turn(&turn);
    let declared = [
        activity().compensated_by("fetch-back", &1).business_key("by"),
        activity().compensated_from_outcome("fetch-back", "/id").business_key("from"),
    ];
    let first = declared[0].id().unwrap();
    for activity in declared {
        assert!(matches!(activity.claim(None).await.unwrap(), Claimed::Call(_)));
        assert_eq!(run.may_supersede().await.unwrap(), Err(WhyNot::Committed { by: Some(first) }));
    }
}

/// FORCE_COMPLETE before anything irreversible has started: no later message may overtake the turn, and it goes on.
pub async fn a_turn_that_is_let_finish_is_neither_overtaken_nor_added_to(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    let later = group.force_complete("talk-2").await.unwrap();
    assert_ne!(later.group(), turn.group());
    let committed = WhyNot::Committed { by: None };
    assert_eq!(group.may_supersede().await.unwrap(), Err(committed));
    assert_eq!(why(&group.supersede().await.unwrap_err()), committed);
    assert_eq!(why(&group.absorb(&turn).await.unwrap_err()), committed);
    for effect in Effect::ALL {
        pay(member(&engine, effect.name(), &turn, effect), "done").await.unwrap();
    }
}

pub async fn a_supersede_said_twice_is_one_and_reports_the_same(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    for effect in [Effect::Pure, Effect::Unsafe, Effect::Compensatable] {
        pay(member(&engine, effect.name(), &turn, effect), "done").await.unwrap();
    }
    let running = begin(member(&engine, "running", &turn, Effect::Unsafe)).await;
    let nonce = Nonce([7; 16]);
    let first = group.supersede_with(nonce).await.unwrap();
    let again = group.supersede_with(nonce).await.unwrap();
    assert_eq!((first.turn.epoch(), again.turn.epoch()), (turn.epoch() + 1, turn.epoch() + 1));
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
    world.settle().await;
    assert!(running.complete(&engine, done("yes")).await.unwrap().is_done());
    assert_eq!(soon(following).await.unwrap().unwrap(), Progress::Committed);
}

/// A followed member whose process died is followed to its lapse, although nothing is written then.
pub async fn a_member_whose_owner_died_is_followed_to_its_lapse(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine_with(policy(|policy| policy.lease = Millis::from_secs(3)));
    let (group, turn) = group(&engine, "talk").await;
    let lost = begin(member(&engine, "k", &turn, Effect::Unsafe)).await;
    let reported = group.supersede().await.unwrap().started;
    assert_eq!(reported[0].progress, Progress::Running);
    assert_eq!(soon(engine.follow(&lost.id())).await.unwrap(), Progress::InDoubt);
}

/// C12 with a real group: the corrected call of the newer turn takes over what the older one had only admitted.
pub async fn a_newer_turn_takes_over_what_an_older_one_had_not_started(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    let admitted =
        begin(member(&engine, "refund", &turn, Effect::Irreversible).fingerprint("10 EUR").not_started()).await;
    let newer = group.supersede().await.unwrap().turn;
    let corrected = member(&engine, "refund", &newer, Effect::Irreversible).fingerprint("20 EUR");
    assert_eq!(pay(corrected, "20 EUR back").await.unwrap().attempt, 2);
    assert!(matches!(admitted.start(&engine).await.unwrap(), Stepped::Fenced));
}

pub async fn another_tenants_turn_is_no_use(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (_, turn) = group(&engine, "talk").await;
    let other = engine.surface("pay").tenant("other").key("k").in_turn(&turn);
    assert!(matches!(never(other).await, Err(OnceError::Engine(_))));
    // Nor does the same name lead to the same group.
    let theirs = engine.group("other", "talk").unwrap();
    assert_eq!(theirs.view().await.unwrap(), None);
}

/// A conversation is closed, and all that it kept goes when its time is over: the group too, and not before its members.
pub async fn a_closed_group_goes_after_its_members_and_not_before(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    let call = member(&engine, "k", &turn, Effect::Unsafe).compensated_by("undo", &1);
    pay(call, "done").await.unwrap();
    // Longer than its retention of a day: it may still have to be undone.
    world.jump(30 * 86_400_000).await;
    engine.sweep().await.unwrap();
    assert_eq!(state(&engine, &id(&engine, "k")).await, StateName::Committed);
    assert!(never(member(&engine, "k", &turn, Effect::Unsafe)).await.unwrap().replayed);
    let again = member(&engine, "k2", &turn, Effect::Unsafe).compensated_by("undo", &1);
    pay(again, "done").await.unwrap();
    group.close().await.unwrap();
    assert_eq!(state(&engine, &id(&engine, "k")).await, StateName::Absent, "its day was long over");
    assert!(matches!(never(member(&engine, "late", &turn, Effect::Pure)).await, Err(OnceError::NotLetStart(_))));
    for _ in 0..3 {
        let (kept, view) = (state(&engine, &id(&engine, "k2")).await, group.view().await.unwrap());
        assert!(kept == StateName::Absent || view.is_some(), "the group went before its member");
        world.jump(86_400_000 / 2).await;
        engine.sweep().await.unwrap();
    }
    world.jump(86_400_000).await;
    assert_eq!(group.view().await.unwrap(), None);
    engine.sweep().await.unwrap();
    assert!(world.stored(&group.id()).await.record.is_none(), "the sweeper takes it away");
}

/// The process that closes a group dies half-way. What was held would be held for ever.
pub async fn a_closing_that_was_cut_short_is_gone_on_with_by_the_sweeper(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "talk").await;
    for number in 0..5 {
        let call = member(&engine, &format!("k{number}"), &turn, Effect::Unsafe).compensated_by("undo", &1);
        pay(call, "done").await.unwrap();
    }
    let closing = group.clone();
    assert!(dies_after(&world, 3, async move { closing.close().await }).await.is_none());
    assert_eq!(group.view().await.unwrap().unwrap().group.phase, GroupPhase::Closing);
    world.jump(86_400_000 + 1).await;
    engine.sweep().await.unwrap();
    assert!(matches!(group.view().await.unwrap().unwrap().group.phase, GroupPhase::Closed { .. }));
    for number in 0..5 {
        assert_eq!(state(&engine, &id(&engine, &format!("k{number}"))).await, StateName::Absent);
    }
}

/// A group outlives restarts of whoever asks: the turn is rebuilt from its number.
pub async fn a_turn_is_found_again_by_its_number(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, first) = group(&engine, "talk").await;
    let newer = group.supersede().await.unwrap().turn;
    let other = world.engine();
    let found = other.group("acme", "talk").unwrap();
    assert_eq!(found.create().await.unwrap(), newer);
    assert_eq!(found.turn(first.epoch() + 1), newer);
    let superseded = Err(WhyNot::Superseded { current: newer.epoch() });
    assert_eq!(found.may_start(&found.turn(first.epoch())).await.unwrap(), superseded);
    let given = tokio::time::timeout(Duration::from_secs(5), pay(member(&other, "k", &newer, Effect::Pure), "x")).await;
    assert_eq!(given.unwrap().unwrap().value, "x");
    let held = ticket(member(&other, "k2", &newer, Effect::Unsafe).not_started().begin().await.unwrap());
    assert!(other.start(&held.id(), held.token()).await.unwrap().is_done());
    found.supersede().await.unwrap();
    // Said again by its owner, who may be at it: fenced, and left to that owner.
    assert!(matches!(other.start(&held.id(), held.token()).await.unwrap(), Stepped::Fenced));
    assert_eq!(state(&other, &held.id()).await, StateName::Pending);
}

/// The answer to a supersede is lost, and the newer turn takes up what the older one had begun. Said again it must report
/// the same members: the one that was taken up may have had its effect before.
pub async fn a_supersede_said_again_reports_what_the_newer_turn_has_taken_up(stage: &Stage) {
    for effect in [Effect::Idempotent, Effect::Compensatable] {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, turn) = group(&engine, "talk").await;
        let lost = begin(member(&engine, "k", &turn, effect)).await;
        if effect == Effect::Compensatable {
            assert!(lost.fail(&engine, retryable("503")).await.unwrap().is_done());
        } else {
            world.jump(3_600_000).await;
        }
        let nonce = Nonce([7; 16]);
        let members = |started: &[hapax_engine::Reported]| started.iter().map(|one| one.member).collect::<Vec<_>>();
        let first = group.supersede_with(nonce).await.unwrap();
        assert_eq!(members(&first.started), [lost.id()], "{effect}");
        assert_eq!(pay(member(&engine, "k", &first.turn, effect), "done").await.unwrap().attempt, 2);
        let again = group.supersede_with(nonce).await.unwrap();
        assert!(again.already);
        assert_eq!(members(&again.started), [lost.id()], "{effect}");
        assert!(again.started.iter().all(|one| one.epoch < first.turn.epoch()), "{effect}");
    }
}

/// A group was closed and forgotten, and somebody makes one of the same name. A turn that was superseded in the earlier
/// life must not be taken for one of the new.
pub async fn a_turn_of_a_forgotten_group_is_none_of_its_namesake(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, old) = group(&engine, "talk").await;
    let newer = group.supersede().await.unwrap().turn;
    group.close().await.unwrap();
    world.jump(40 * 86_400_000).await;
    engine.sweep().await.unwrap();
    assert!(group.view().await.unwrap().is_none());
    let reborn = group.create().await.unwrap();
    for turn in [&old, &newer] {
        assert!(never(member(&engine, "k", turn, Effect::Compensatable)).await.is_err());
    }
    pay(member(&engine, "k", &reborn, Effect::Compensatable), "done").await.unwrap();
}

/// A call is not let start because its group was never made, is being undone, is closed or has no place left. "A newer turn
/// has overtaken it" would send whoever reads it the wrong way.
pub async fn a_call_that_is_not_let_start_is_told_why(stage: &Stage) {
    use hapax_core::group::{MOST_STARTS, Started};
    use hapax_store::Store as _;

    let world = stage.world().await;
    let engine = world.engine();
    let told = |given: Given<String>| match given {
        Err(OnceError::NotLetStart(refused)) => Some(why(&refused)),
        Err(OnceError::Superseded) => None,
        other => panic!("{other:?}"),
    };
    for effect in [Effect::Unsafe, Effect::Compensatable] {
        let nowhere = engine.group("acme", "never-made").unwrap().turn(1);
        assert_eq!(told(never(member(&engine, "k", &nowhere, effect)).await), Some(WhyNot::Absent));
        let (talk, turn) = group(&engine, &format!("talk-{effect}")).await;
        talk.supersede().await.unwrap();
        assert_eq!(told(never(member(&engine, "k", &turn, effect)).await), None);
        talk.close().await.unwrap();
        let newest = talk.turn(turn.epoch() + 1);
        assert_eq!(told(never(member(&engine, "k", &newest, effect)).await), Some(WhyNot::Closed));
    }
    // A list that is full: what need not be listed starts all the same.
    let (talk, turn) = group(&engine, "busy").await;
    let stored = world.stored(&talk.id()).await;
    let mut busy = hapax_store::codec::open_group(&stored.record.unwrap()).unwrap();
    let (epoch, effect) = (turn.epoch(), Effect::Compensatable);
    let member_of = |ordinal: u64| hapax_core::Id::derived("test", &[&ordinal.to_le_bytes()]);
    let start = |ordinal| Started { member: member_of(ordinal), attempt: 1, epoch, effect, ordinal };
    busy.starts = (1..=MOST_STARTS as u64).map(start).collect();
    let filled = hapax_store::codec::seal_group(&busy);
    let swapped = world.store.swap(&talk.id(), stored.version, Some(filled)).await;
    // A ledger with segments as small as in tests takes no record of that length.
    if matches!(swapped, Err(hapax_store::StoreError::Unsupported { .. })) {
        return;
    }
    assert!(matches!(swapped.unwrap(), hapax_store::Swap::Swapped { .. }));
    assert_eq!(told(never(member(&engine, "k", &turn, effect)).await), Some(WhyNot::Full));
    pay(member(&engine, "other", &turn, Effect::Unsafe), "done").await.unwrap();
}
