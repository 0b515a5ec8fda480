//! Calls that a run makes outside.

use std::sync::Arc;

use hapax_core::{
    Effect, Millis, StateName,
    identity::{Field, Recipe},
    policy::OnUncaptured,
};
use hapax_engine::{
    Activity, ActivityError, ActivityStream, Answered, EffectState, Engine, NoAnswer, OnceError, Performed, Place,
    Settled, StreamBegun,
};

use super::{Mood, Stage, sleep, state};

const CHARGE: Place<'_> = Place { run: "run-1", node: "n1", ordinal: 0, provider: "stripe:create-charge" };
const MAIL: Place<'_> = Place { run: "run-1", node: "n2", ordinal: 0, provider: "mail:send" };

async fn answer(activity: Activity, status: u16, body: &'static str) -> Result<Performed, ActivityError> {
    activity.perform(move |_| async move { Ok(Answered::new(status, body)) }).await
}

async fn never(activity: Activity) -> Result<Performed, ActivityError> {
    activity.perform(|_| async { panic!("the provider was called a second time") }).await
}

pub(super) fn mail(engine: &Engine, effect: Effect) -> Activity {
    engine.activity("acme", &MAIL).effect(effect)
}

/// A node is retried: the provider must not be called again, and the executor gets the answer of the first time.
pub async fn a_retried_node_gets_the_recorded_answer(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let sent = answer(mail(&engine, Effect::Unsafe), 202, "{\"id\":7}").await.unwrap();
    assert!(!sent.replayed);
    for _ in 0..3 {
        let again = never(mail(&engine, Effect::Unsafe)).await.unwrap();
        assert!(again.replayed);
        assert_eq!((again.answer.status, again.answer.body()), (202, &b"{\"id\":7}"[..]));
    }
    // For 14 days, and not a day longer.
    world.jump(14 * 86_400_000 - 1_000).await;
    assert!(never(mail(&engine, Effect::Unsafe)).await.is_ok());
    world.jump(2_000).await;
    // On a store that others write to, a process believes its own memory for two seconds: ask in another one.
    let engine = world.engine();
    assert!(!answer(mail(&engine, Effect::Unsafe), 202, "x").await.unwrap().replayed);
}

/// A declined card is an answer: retried as if it had never been, it would be charged by another route.
pub async fn a_final_refusal_is_recorded_like_any_answer(stage: &Stage) {
    let engine = stage.engine().await;
    for (ordinal, status) in [400, 401, 402, 403, 404, 409, 422].into_iter().enumerate() {
        let activity = || engine.activity("acme", &Place { ordinal: ordinal as u64, ..MAIL });
        let first = answer(activity(), status, "declined").await.unwrap();
        let again = never(activity()).await.unwrap();
        assert_eq!((first.answer.status, first.replayed), (status, false));
        assert_eq!((again.answer.clone(), again.replayed), (first.answer, true));
    }
}

/// The provider has answered, and the answer cannot be written down. An executor that went on from it would go on from what
/// nobody can confirm: after a crash the same node finds a doubt, or another answer. A declined card counts as much as a paid one:
/// on its word the next route is charged.
pub async fn no_answer_is_given_that_is_not_in_the_store(stage: &Stage) {
    for status in [200, 402] {
        let world = stage.world().await;
        let engine = world.engine();
        let activity = || mail(&engine, Effect::Irreversible);
        let id = activity().id().unwrap();
        // The store refuses the write after the effect.
        let store = Arc::clone(&world.store);
        let given = activity()
            .perform(move |_| async move {
                store.mood(Mood::Down);
                Ok(Answered::new(status, "first"))
            })
            .await;
        world.store.mood(Mood::Well);
        let refused = matches!(&given, Err(ActivityError::Stopped(why)) if matches!(**why, OnceError::NotRecorded(_)));
        assert!(refused, "{status}: it is not in the store, and yet {given:?}");
        // The process that knew it ends before it is offered again: only the store is left.
        drop(engine);
        let engine = world.engine();
        let kept = state(&engine, &id).await;
        assert_eq!(kept, StateName::Pending, "{status}: started, and no word of an outcome");

        // While the write is under way nobody has the answer; once it is answered, both have it.
        let world = stage.world().await;
        let engine = world.engine();
        let store = Arc::clone(&world.store);
        let gate = Arc::new(parking_lot::Mutex::new(None));
        let held = Arc::clone(&gate);
        let performing = mail(&engine, Effect::Irreversible).perform(move |_| async move {
            *held.lock() = Some(store.hold_swaps());
            Ok(Answered::new(status, "second"))
        });
        let performing = tokio::spawn(performing);
        world.settle().await;
        assert!(!performing.is_finished(), "{status}: given before the store had said that it has it");
        let gate = gate.lock().take().expect("the provider was called");
        world.store.hold_nothing();
        gate.add_permits(100);
        let given = performing.await.unwrap().unwrap();
        assert_eq!((given.answer.status, given.replayed), (status, false));
        let again = never(mail(&world.engine(), Effect::Irreversible)).await.unwrap();
        assert_eq!((again.answer, again.replayed), (given.answer, true), "{status}: what was given is what is kept");
    }
}

pub async fn passing_failures_may_be_tried_again_and_doubtful_ones_may_not(stage: &Stage) {
    for effect in Effect::ALL {
        let careful = matches!(effect, Effect::Compensatable | Effect::Irreversible);
        for (status, passing) in
            [(425, true), (429, true), (503, true), (408, !careful), (500, !careful), (507, !careful)]
        {
            let engine = stage.engine().await;
            let failed = answer(mail(&engine, effect), status, "busy").await;
            let id = mail(&engine, effect).id().unwrap();
            if passing {
                assert!(matches!(failed, Err(ActivityError::Retryable(_))), "{status} of {effect}");
                assert_eq!(answer(mail(&engine, effect), 200, "ok").await.unwrap().attempt, 2);
            } else {
                assert!(matches!(failed, Err(ActivityError::Unknown(_))), "{status} of {effect}");
                assert_eq!(state(&engine, &id).await, StateName::InDoubt, "{status} of {effect}");
            }
        }
        for status in [502, 504] {
            let engine = stage.engine().await;
            assert!(matches!(answer(mail(&engine, effect), status, "").await, Err(ActivityError::Unknown(_))));
            let expected = if effect.may_rerun() { StateName::Open } else { StateName::InDoubt };
            assert_eq!(state(&engine, &mail(&engine, effect).id().unwrap()).await, expected, "{status} of {effect}");
        }
    }
}

/// The call never left: nothing is remembered. It was lost on the way: then nobody may call again.
pub async fn what_was_not_sent_leaves_nothing_and_what_was_lost_leaves_a_doubt(stage: &Stage) {
    let engine = stage.engine().await;
    let unsent =
        mail(&engine, Effect::Irreversible).perform(|_| async { Err(NoAnswer::NotSent("refused".into())) }).await;
    assert!(matches!(unsent, Err(ActivityError::NoAnswer(NoAnswer::NotSent(_)))));
    assert_eq!(state(&engine, &mail(&engine, Effect::Irreversible).id().unwrap()).await, StateName::Absent);
    let lost = mail(&engine, Effect::Irreversible).perform(|_| async { Err(NoAnswer::Lost("reset".into())) }).await;
    assert!(matches!(lost, Err(ActivityError::NoAnswer(NoAnswer::Lost(_)))));
    let again = never(mail(&engine, Effect::Irreversible)).await;
    assert!(matches!(again, Err(ActivityError::Stopped(why)) if matches!(*why, OnceError::InDoubt { .. })));
}

/// Within its window Stripe answers the same key with the same charge: a lost call is made again, with the same key,
/// whatever its class. Beyond it the same would be a second charge.
pub async fn a_provider_that_honours_keys_is_called_again_inside_its_window_and_not_beyond(stage: &Stage) {
    for effect in Effect::ALL {
        let world = stage.world().await;
        let engine = world.engine();
        let charge = || engine.activity("acme", &CHARGE).effect(effect);
        let keys = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let lose = |keys: Arc<parking_lot::Mutex<Vec<String>>>| {
            charge().perform(move |outgoing| async move {
                assert_eq!(outgoing.header(), Some(("Idempotency-Key", outgoing.key())));
                keys.lock().push(outgoing.key().to_owned());
                Err(NoAnswer::Lost("no answer".into()))
            })
        };
        for _ in 0..3 {
            assert!(lose(Arc::clone(&keys)).await.is_err());
            world.jump(7 * 3_600_000).await;
        }
        assert_eq!(keys.lock().len(), 3, "{effect}");
        let sent = keys.lock().clone();
        assert!(sent.iter().all(|key| key == &sent[0]), "every attempt shows the same key");
        // 21 hours after the first call; at 22 it is over, well before Stripe forgets at 24.
        world.jump(3_600_000 + 1).await;
        let beyond = charge().perform(|_| async { Ok(Answered::new(200, "a second charge")) }).await;
        if effect.may_rerun() {
            assert!(beyond.is_ok(), "{effect}");
        } else {
            let told = beyond.unwrap_err();
            assert!(
                matches!(&told, ActivityError::Stopped(why) if matches!(**why, OnceError::InDoubt { .. })),
                "{effect}: {told}"
            );
        }
    }
}

/// A charge is lost. It is tried again inside Stripe's window, and that call is not sent, or is turned away for now. A day
/// later Stripe has forgotten the key, and nobody knows more of the first charge than before: made again, it would be a
/// second one.
pub async fn a_lost_charge_is_not_forgotten_over_a_later_call_that_came_to_nothing(stage: &Stage) {
    for turned_away in [None, Some(429), Some(503), Some(425)] {
        let world = stage.world().await;
        let engine = world.engine();
        let charge = || engine.activity("acme", &CHARGE).effect(Effect::Irreversible);
        let id = charge().id().unwrap();
        let lost = charge().perform(|_| async { Err(NoAnswer::Lost("no answer".into())) }).await;
        assert!(lost.is_err());
        for _ in 0..10 {
            let again = match turned_away {
                None => charge().perform(|_| async { Err(NoAnswer::NotSent("refused".into())) }).await,
                Some(status) => answer(charge(), status, "later").await,
            };
            assert!(!matches!(again.unwrap_err(), ActivityError::Stopped(_)), "{turned_away:?}: inside the window");
            assert_eq!(state(&engine, &id).await, StateName::InDoubt, "{turned_away:?}");
        }
        world.jump(23 * 3_600_000).await;
        let told = never(charge()).await.unwrap_err();
        assert!(
            matches!(&told, ActivityError::Stopped(why) if matches!(**why, OnceError::InDoubt { .. })),
            "{turned_away:?}: {told}"
        );
        // Nor once everything that has a window is gone.
        world.jump(400 * 86_400_000).await;
        assert!(never(charge()).await.is_err(), "{turned_away:?}");
        let effects = engine.effects_of_run("acme", "run-1").await.unwrap();
        assert_eq!(effects[0].state, EffectState::Escaped, "{turned_away:?}");
    }
}

/// Two runs come to the same charge of the same order: known by the business, it is one.
pub async fn a_business_key_comes_before_the_place(stage: &Stage) {
    let engine = stage.engine().await;
    let in_run = |run| engine.activity("acme", &Place { run, ..CHARGE });
    answer(in_run("run-1").business_key("order-17"), 200, "charged").await.unwrap();
    assert!(never(in_run("run-2").business_key("order-17")).await.unwrap().replayed);
    assert!(!answer(in_run("run-2"), 200, "by its place").await.unwrap().replayed);
    // Of another tenant it is another.
    let other = engine.activity("other", &CHARGE).business_key("order-17");
    assert!(!answer(other, 200, "theirs").await.unwrap().replayed);
}

pub async fn ids_of_other_systems_are_taken_over_by_their_recipe(stage: &Stage) {
    let engine = stage.engine().await;
    let recipe = Recipe::named("openwop.activity.v2").unwrap();
    let fields = [
        ("tenant", Field::Text("acme")),
        ("run", Field::Text("run-1")),
        ("node", Field::Text("n1")),
        ("ordinal", Field::Number(0)),
        ("provider", Field::Text("stripe:create-charge")),
    ];
    let activity = || engine.activity("acme", &CHARGE).recipe(recipe, &fields).unwrap();
    answer(activity(), 200, "x").await.unwrap();
    assert!(never(activity()).await.unwrap().replayed);
    assert_ne!(activity().id().unwrap(), engine.activity("acme", &CHARGE).id().unwrap());
}

pub async fn a_run_lists_what_it_did_and_what_escaped_it(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let at = |ordinal| engine.activity("acme", &Place { run: "run-9", ordinal, ..MAIL }).effect(Effect::Irreversible);
    answer(at(0), 200, "done").await.unwrap();
    answer(at(1), 402, "declined").await.unwrap();
    assert!(answer(at(2), 503, "busy").await.is_err());
    assert!(answer(at(3), 504, "lost").await.is_err());
    let StreamBegun::Open(open) = at(4).stream().await.unwrap() else { panic!("it is new") };
    let mut states: Vec<EffectState> =
        engine.effects_of_run("acme", "run-9").await.unwrap().iter().map(|effect| effect.state).collect();
    states.sort_by_key(|state| *state as u8);
    use EffectState::{Claimed, Completed, Escaped, Released};
    assert_eq!(states, [Claimed, Completed, Completed, Released, Escaped]);
    assert!(engine.effects_of_run("acme", "run-8").await.unwrap().is_empty());
    assert!(engine.effects_of_run("other", "run-9").await.unwrap().is_empty());
    drop(open);
}

/// A stream is too long to keep. That it was made and how it ended is: a retry must not pay for it again unasked.
pub async fn a_stream_is_recorded_by_its_start_and_its_end(stage: &Stage) {
    tokio::join!(streams(stage, OnUncaptured::Refuse), streams(stage, OnUncaptured::Reinvoke));
}

/// A stream of each class that went on for longer than its lease.
async fn opened_and_kept(engine: &Engine) -> Option<Vec<(Effect, ActivityStream)>> {
    let mut open = Vec::new();
    for effect in Effect::ALL {
        let activity = engine.activity("acme", &Place { node: effect.name(), ..MAIL }).effect(effect);
        let StreamBegun::Open(stream) = activity.stream().await.unwrap() else { panic!("it is new") };
        open.push((effect, stream));
    }
    let lease = open.iter().map(|(_, stream)| stream.outgoing().ticket().lease().0).max()?;
    sleep(lease + 1_000).await;
    for (_, stream) in &open {
        if state(engine, &stream.outgoing().ticket().id()).await != StateName::Pending {
            return None;
        }
    }
    Some(open)
}

async fn streams(stage: &Stage, on_uncaptured: OnUncaptured) {
    let mut policy = hapax_core::Preset::Activity.policy();
    policy.capture.on_uncaptured = on_uncaptured;
    // A machine that stands still for longer than a lease loses it: so a longer one is tried before that counts.
    let mut kept = None;
    for seconds in [3, 9, 27] {
        policy.lease = Millis::from_secs(seconds);
        let world = stage.world().await;
        let engine = world.builder().policy("activity", policy.clone()).build().unwrap();
        if let Some(open) = opened_and_kept(&engine).await {
            kept = Some((world, engine, open));
            break;
        }
    }
    let (_world, engine, open) = kept.expect("no lease was kept while its stream went on");
    let activity = |effect: Effect| engine.activity("acme", &Place { node: effect.name(), ..MAIL }).effect(effect);
    for (effect, stream) in open {
        let key = stream.outgoing().key().to_owned();
        assert!(matches!(stream.end(200, 99, [7; 32]).await, Settled::Recorded));
        let reinvoked = on_uncaptured == OnUncaptured::Reinvoke && effect.may_rerun();
        match activity(effect).stream().await.unwrap() {
            StreamBegun::Finished { length, digest } => {
                assert_eq!((length, digest), (99, [7; 32]));
                assert!(!reinvoked, "{effect}");
            }
            StreamBegun::Again(outgoing) => {
                assert!(reinvoked, "{effect}");
                assert_eq!(outgoing.key(), key);
            }
            other @ (StreamBegun::Open(_) | StreamBegun::Told(_)) => panic!("{other:?}"),
        }
    }
    let StreamBegun::Open(broken) = engine.activity("acme", &MAIL).stream().await.unwrap() else { panic!("new") };
    let id = broken.outgoing().ticket().id();
    assert!(matches!(broken.broken("reset by peer").await, Settled::Recorded));
    assert_eq!(state(&engine, &id).await, StateName::InDoubt);
}
