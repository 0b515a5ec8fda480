//! Messages that make one turn, in whatever order and however often they arrive.

use hapax_core::Effect;
use hapax_engine::{BeatError, BeatSession, Gathered, SessionBeat};

use super::*;

fn new(gathered: Gathered) -> SessionBeat {
    let Gathered::New(beat) = gathered else { panic!("{gathered:?}") };
    beat
}

fn known(gathered: Gathered) -> SessionBeat {
    let Gathered::Known(beat) = gathered else { panic!("{gathered:?}") };
    beat
}

pub(super) fn session(world: &World, tenant: &str) -> BeatSession {
    world.engine().beats(tenant, "s1").unwrap()
}

/// The same messages in another order, one of them alone, all of them twice: one beat, one answer.
pub async fn a_beat_is_found_by_any_of_its_messages_in_any_order(stage: &Stage) {
    let world = stage.world().await;
    let session = session(&world, "acme");
    let beat = new(session.gather(&["m2", "m1", "m1"]).await.unwrap());
    assert_eq!(beat.size(), 2);
    for again in [&["m1", "m2"][..], &["m2"], &["m1"], &["m2", "m1", "m2"]] {
        assert_eq!(known(session.gather(again).await.unwrap()), beat);
    }
    assert!(matches!(session.call(&beat), Err(BeatError::NotSealed)));
    let sealed = session.seal(&beat).await.unwrap();
    assert!(sealed.is_sealed());
    let answered = pay(session.call(&sealed).unwrap().effect(Effect::Unsafe), "hello").await.unwrap();
    assert!(!answered.replayed);
    // A redelivery of any member finds the beat, and its answer.
    let redelivered = known(session.gather(&["m1"]).await.unwrap());
    assert!(never(session.call(&redelivered).unwrap().effect(Effect::Unsafe)).await.unwrap().replayed);
}

pub async fn an_absorbed_message_belongs_to_the_beat_until_it_is_sealed(stage: &Stage) {
    let world = stage.world().await;
    let session = session(&world, "acme");
    let beat = new(session.gather(&["m1"]).await.unwrap());
    let other = new(session.gather(&["x1"]).await.unwrap());
    let (grown, elsewhere) = session.absorb(&beat, &["m2", "x1"]).await.unwrap();
    assert_eq!((grown.size(), elsewhere), (2, vec![("x1".to_owned(), other.number())]));
    assert_eq!(known(session.gather(&["m2"]).await.unwrap()).number(), beat.number());
    let sealed = session.seal(&grown).await.unwrap();
    assert!(matches!(session.absorb(&sealed, &["m3"]).await, Err(BeatError::Beat(_))));
    // What it has already it is told again.
    assert_eq!(session.absorb(&sealed, &["m2"]).await.unwrap().0, sealed);
}

/// Half of what arrives was answered before. The answer names the beats, and what is left to answer.
pub async fn a_partial_overlap_names_the_beats_and_what_is_unanswered(stage: &Stage) {
    let world = stage.world().await;
    let session = session(&world, "acme");
    let first = new(session.gather(&["m1", "m2"]).await.unwrap());
    let second = new(session.gather(&["m3"]).await.unwrap());
    let Gathered::Overlap { mut found, beats, unanswered } = session.gather(&["m4", "m3", "m1"]).await.unwrap() else {
        panic!("they overlap")
    };
    found.sort();
    assert_eq!(found, [("m1".to_owned(), first.number()), ("m3".to_owned(), second.number())]);
    assert_eq!((beats.len(), unanswered), (2, vec!["m4".to_owned()]));
    assert!(matches!(session.gather(&["m4"]).await.unwrap(), Gathered::New(_)));
}

/// Past the commit point of its turn nothing is absorbed: the message gets a turn of its own.
pub async fn nothing_is_absorbed_into_a_committed_turn(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let session = session(&world, "acme");
    let group = engine.group("acme", "talk").unwrap();
    let turn = group.create().await.unwrap();
    let beat = new(session.gather(&["m1"]).await.unwrap());
    let (grown, _) = session.absorb_into(&group, &turn, &beat, &["m2"]).await.unwrap();
    assert_eq!(grown.size(), 2);
    group.commit().await.unwrap();
    assert!(matches!(session.absorb_into(&group, &turn, &beat, &["m3"]).await, Err(BeatError::Group(_))));
    assert!(matches!(session.gather(&["m3"]).await.unwrap(), Gathered::New(_)));
}

/// Beats are remembered for a time, and no longer: a session does not grow for ever.
pub async fn a_beat_is_forgotten_when_its_time_is_over(stage: &Stage) {
    let world = stage.world().await;
    let session = session(&world, "acme");
    let beat = new(session.gather(&["m1"]).await.unwrap());
    world.jump(300_000).await;
    assert_eq!(known(session.gather(&["m1"]).await.unwrap()), beat, "its turn may still be under way");
    world.jump(3_600_000).await;
    world.engine().sweep().await.unwrap();
    assert_ne!(new(session.gather(&["m1"]).await.unwrap()), beat);
    assert!(matches!(session.seal(&beat).await, Err(BeatError::Beat(_))), "an old handle does not reach the new beat");
}

/// A beat takes a quarter of an hour to answer, and one of its messages is delivered again in the meantime. It belongs to
/// that beat for as long as the beat is being answered, or the turn would run twice.
pub async fn a_beat_is_not_forgotten_while_it_is_answered(stage: &Stage) {
    for sweeps in [false, true] {
        let world = stage.world().await;
        let engine = world.engine();
        let session = engine.beats("acme", "s1").unwrap();
        let gathered = new(session.gather(&["m1", "m2"]).await.unwrap());
        let sealed = session.seal(&gathered).await.unwrap();
        let answering = begin(session.call(&sealed).unwrap().effect(Effect::Unsafe)).await;
        for _ in 0..5 {
            world.jump(180_000).await;
            assert!(answering.renew(&engine).await.unwrap().is_done());
            if sweeps {
                engine.sweep().await.unwrap();
            }
            assert_eq!(known(session.gather(&["m1"]).await.unwrap()), sealed);
        }
        assert!(answering.complete(&engine, done("\"hello\"")).await.unwrap().is_done());
        world.jump(30_000).await;
        let redelivered = known(session.gather(&["m2"]).await.unwrap());
        assert!(never(session.call(&redelivered).unwrap().effect(Effect::Unsafe)).await.unwrap().replayed);
        // Its answer is not kept for ever, and so neither is the beat.
        world.jump(3_600_000).await;
        engine.sweep().await.unwrap();
        assert_ne!(new(session.gather(&["m1"]).await.unwrap()), sealed);
    }
}

/// A beat and a session have their limits, and whoever runs into one is told which.
pub async fn a_beat_and_a_session_have_their_limits(stage: &Stage) {
    use hapax_core::beat::{MOST_BEATS, MOST_MESSAGES, NoBeat};
    let world = stage.world().await;
    let session = session(&world, "acme");
    let names: Vec<String> = (0..=MOST_MESSAGES).map(|number| format!("m{number}")).collect();
    let messages: Vec<&str> = names.iter().map(String::as_str).collect();
    let told = session.gather(&messages).await.unwrap_err();
    assert!(matches!(told, BeatError::Beat(NoBeat::TooMany)), "{told}");
    let beat = new(session.gather(&messages[..MOST_MESSAGES]).await.unwrap());
    let told = session.absorb(&beat, &["one-more"]).await.unwrap_err();
    assert!(matches!(told, BeatError::Beat(NoBeat::TooMany)), "{told}");
    for number in 1..MOST_BEATS {
        let _gathered = new(session.gather(&[&format!("x{number}")]).await.unwrap());
    }
    let told = session.gather(&["one-more"]).await.unwrap_err();
    assert!(matches!(told, BeatError::Beat(NoBeat::Full)), "{told}");
    // What is known is found all the same, and there is room again when their time is over.
    assert_eq!(known(session.gather(&["x7"]).await.unwrap()).size(), 1);
    world.jump(3_600_000).await;
    let _gathered = new(session.gather(&["one-more"]).await.unwrap());
}
