//! The one call most users make, with everything that can become of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
};

use crate::support::*;
use hapax_core::{
    Effect, Millis, Span, StateName, WallMillis,
    policy::{FingerprintMode, Keep, OnMismatch, OnStoreError},
};
use hapax_engine::{Classified, Failure, OnceError, Stepped, Wait};
use hapax_store::{Fault, Landing, Store};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Receipt {
    order: String,
    amount: u64,
    lines: Vec<(String, i32)>,
    note: Option<String>,
}

fn receipt() -> Receipt {
    Receipt { order: "o-17".into(), amount: 4_200, lines: vec![("a".into(), -1), ("ü".into(), 2)], note: None }
}

async fn fails(call: hapax_engine::Call, failure: Failure) -> Given<String> {
    call.once(move |_| async move { Err(Classified { failure, error: "no".to_owned() }) }).await
}

/// A retry gets the very value that the first call got, from the gate and from the store alike.
#[tokio::test(start_paused = true)]
async fn a_replayed_value_equals_the_first() {
    let world = World::new();
    let engine = world.engine();
    let first = call(&engine, "k").once(|_| async { Ok::<_, Failed>(receipt()) }).await.unwrap();
    assert!(!first.replayed && !first.joined && !first.unrecorded);
    for engine in [engine, world.engine()] {
        let again = call(&engine, "k").once(|_| async { Err::<Receipt, _>(Failed::unknown("ran".into())) }).await;
        let again = again.unwrap();
        assert_eq!((again.value, again.replayed, again.attempt), (first.value.clone(), true, 1));
    }
}

/// A failure that would come again is recorded, and every retry gets it without running.
#[tokio::test(start_paused = true)]
async fn a_final_failure_is_recorded_and_given_again() {
    let world = World::new();
    let engine = world.engine();
    assert!(matches!(fails(call(&engine, "k"), Failure::Final).await, Err(OnceError::Failed(_))));
    for engine in [engine, world.engine()] {
        let again = never(call(&engine, "k")).await;
        assert!(matches!(&again, Err(OnceError::Rejected { message, attempt: 1, joined: false }) if message == "no"));
    }
}

/// A failure that may pass is not given again: the next call runs it as attempt 2, under the same fingerprint only.
#[tokio::test(start_paused = true)]
async fn a_retryable_failure_lets_the_next_call_run() {
    let world = World::new();
    let engine = world.engine();
    assert!(fails(call(&engine, "k").fingerprint("a"), Failure::Retryable).await.is_err());
    assert_eq!(state(&engine, &id(&engine, "k")).await, StateName::Open);
    assert!(matches!(never(call(&engine, "k").fingerprint("b")).await, Err(OnceError::Mismatch)));
    let second = pay(call(&engine, "k").fingerprint("a"), "v").await.unwrap();
    assert_eq!((second.attempt, second.replayed), (2, false));
}

/// Nothing happened: the key is as if it had never been used, also for another request.
#[tokio::test(start_paused = true)]
async fn no_effect_leaves_nothing_behind() {
    let world = World::new();
    let engine = world.engine();
    assert!(fails(call(&engine, "k").fingerprint("a"), Failure::NoEffect).await.is_err());
    assert_eq!(state(&engine, &id(&engine, "k")).await, StateName::Absent);
    assert_eq!(pay(call(&engine, "k").fingerprint("b"), "v").await.unwrap().attempt, 1);
}

/// Nobody can say whether it happened: by its class it is open or in doubt.
#[tokio::test(start_paused = true)]
async fn an_unknown_end_is_judged_by_the_class() {
    for effect in Effect::ALL {
        let world = World::new();
        let engine = world.engine();
        assert!(fails(call(&engine, "k").effect(effect), Failure::Unknown).await.is_err());
        let expected = if effect.may_rerun() { StateName::Open } else { StateName::InDoubt };
        assert_eq!(state(&engine, &id(&engine, "k")).await, expected, "{effect}");
        if effect.may_rerun() {
            assert_eq!(pay(call(&engine, "k").effect(effect), "v").await.unwrap().attempt, 2);
        } else {
            assert!(matches!(never(call(&engine, "k").effect(effect)).await, Err(OnceError::InDoubt { .. })));
        }
    }
}

/// A panic is an unknown end, in `once` and in `once_inline`, before the first await and after it.
#[tokio::test(start_paused = true)]
async fn a_panic_is_an_unknown_end() {
    let world = World::new();
    let engine = world.engine();
    let early = call(&engine, "early").once(|_| async { panic!("boom") });
    assert!(matches!(early.await as Given<String>, Err(OnceError::Panicked(text)) if text == "boom"));
    let late = call(&engine, "late").once_inline(|_| async {
        sleep(10).await;
        panic!("boom {}", 2)
    });
    assert!(matches!(late.await as Given<String>, Err(OnceError::Panicked(text)) if text == "boom 2"));
    let unmade = call(&engine, "unmade").once::<String, Failed, _, std::future::Ready<_>>(|_| panic!("no future"));
    assert!(matches!(unmade.await, Err(OnceError::Panicked(_))));
    for key in ["early", "late", "unmade"] {
        assert!(matches!(never(call(&engine, key)).await, Err(OnceError::InDoubt { .. })), "{key}");
    }
}

/// A value that panics when it is written down, after the effect has run: its end is unknown, at once and not a lease later.
#[tokio::test(start_paused = true)]
async fn a_value_that_panics_when_it_is_written_is_an_unknown_end() {
    #[derive(Debug)]
    struct Rude;
    impl serde::Serialize for Rude {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("not me")
        }
    }
    impl<'de> serde::Deserialize<'de> for Rude {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Ok(Self)
        }
    }
    let world = World::new();
    let engine = world.engine();
    let rude = call(&engine, "rude").once(|_| async { Ok::<_, Failed>(Rude) }).await;
    assert!(matches!(rude, Err(OnceError::Panicked(text)) if text == "not me"));
    assert!(matches!(never(call(&engine, "rude")).await, Err(OnceError::InDoubt { .. })));
}

/// A value too large to keep: retries are told that it was done, and by which digest, and nothing runs again.
#[tokio::test(start_paused = true)]
async fn a_value_too_large_to_keep_is_still_done() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| {
        policy.capture.max_body = 100;
        policy.capture.inline = 10;
    }));
    let large = "x".repeat(101);
    let value = large.clone();
    let first = call(&engine, "k").once(move |_| async move { Ok::<_, Failed>(value) }).await.unwrap();
    assert_eq!(first.value, large);
    assert!(matches!(never(call(&engine, "k")).await, Err(OnceError::AlreadyCompleted { .. })));
    assert_eq!(world.store.bodies_put.load(SeqCst), 0);
}

/// A long value lies beside its record and comes back byte for byte.
#[tokio::test(start_paused = true)]
async fn a_body_out_of_line_comes_back_byte_for_byte() {
    let world = World::new();
    let engine = world.engine();
    let large: String = (0..100_000).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
    let value = large.clone();
    assert!(call(&engine, "k").once(move |_| async move { Ok::<_, Failed>(value) }).await.is_ok());
    assert_eq!(world.store.bodies_put.load(SeqCst), 1);
    for engine in [engine, world.engine()] {
        assert_eq!(never(call(&engine, "k")).await.unwrap().value, large);
    }
}

/// Its owner says one long outcome, then another. The second is refused, and must not take the place of the first
/// one's bytes: what was given out once is what everybody gets.
#[tokio::test(start_paused = true)]
async fn a_refused_second_outcome_does_not_overwrite_the_first_ones_body() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k")).await;
    let (first, second) = ("\"".to_owned() + &"a".repeat(50_000) + "\"", "\"".to_owned() + &"b".repeat(50_000) + "\"");
    let outcome = |text: &String| hapax_core::Outcome::success(text.clone());
    assert!(ticket.complete(&engine, outcome(&first)).await.unwrap().is_done());
    assert!(matches!(ticket.complete(&engine, outcome(&second)).await.unwrap(), Stepped::Conflict(_)));
    assert!(matches!(
        engine.complete(&ticket.id(), ticket.token(), outcome(&second)).await.unwrap(),
        Stepped::Conflict(_)
    ));
    let elsewhere = world.engine();
    assert!(format!("\"{}\"", never(call(&elsewhere, "k")).await.unwrap().value) == first, "the bytes were replaced");
}

/// The store refuses the body once. The effect has happened, so its outcome is tried again and not thrown away.
#[tokio::test(start_paused = true)]
async fn a_body_that_could_not_be_stored_at_first_is_stored_again() {
    let world = World::new();
    let engine = world.engine();
    world.store.fail_body_puts(2);
    let large = "x".repeat(50_000);
    let value = large.clone();
    let first = call(&engine, "k").once(move |_| async move { Ok::<_, Failed>(value) }).await;
    assert_eq!(first.unwrap().value, large);
    assert_eq!(never(call(&engine, "k")).await.unwrap().value, large);
}

/// A retryable failure with a long message is laid beside the record too, and whoever waited for it can read it.
#[tokio::test(start_paused = true)]
async fn a_long_retryable_failure_reaches_those_who_waited() {
    let world = World::new();
    let engine = world.engine();
    let long = "sorry ".repeat(10_000);
    let message = long.clone();
    let owner = tokio::spawn(call(&engine, "k").once(move |_| async move {
        sleep(100).await;
        Err::<String, _>(Failed::retryable(message))
    }));
    sleep(10).await;
    let waited = never(call(&engine, "k")).await;
    assert!(matches!(waited, Err(OnceError::JoinedFailure { message }) if message == long));
    assert!(matches!(owner.await.unwrap(), Err(OnceError::Failed(_))));
    let by_hand = begin(call(&engine, "by-hand")).await;
    let failure =
        hapax_core::Outcome::new(hapax_core::OutcomeClass::RetryableFailure, hapax_core::Body::Inline(long.into()));
    assert!(by_hand.fail(&engine, failure).await.unwrap().is_done());
    let record = world.stored(&by_hand.id()).await.record.unwrap();
    assert!(record.payload.len() < 10_000, "a record stays small: {} bytes", record.payload.len());
}

/// Where only a marker is kept, a retry of a call without a value gets one, and of any other is told that it was done.
#[tokio::test(start_paused = true)]
async fn a_marker_keeps_no_value() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.capture.keep = Keep::Marker));
    let run = |key: &'static str| call(&engine, key).once(|_| async { Ok::<_, Failed>(()) });
    assert!(!run("unit").await.unwrap().replayed);
    assert!(run("unit").await.unwrap().replayed);
    assert!(pay(call(&engine, "text"), "secret").await.is_ok());
    assert!(matches!(never(call(&engine, "text")).await, Err(OnceError::AlreadyCompleted { .. })));
    let record = world.stored(&id(&engine, "text")).await.record.unwrap();
    assert!(!String::from_utf8_lossy(&record.payload).contains("secret"));
}

/// Where a handle is kept, a text is one.
#[tokio::test(start_paused = true)]
async fn a_handle_comes_back_as_the_text_it_was() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.capture.keep = Keep::Handle));
    assert!(pay(call(&engine, "k"), "run-42 \"quoted\"").await.is_ok());
    assert_eq!(never(call(&world.engine_with(policy(|_| {})), "k")).await.unwrap().value, "run-42 \"quoted\"");
}

/// The order of fields is no difference; another amount is.
#[tokio::test(start_paused = true)]
async fn a_fingerprint_forgives_order_and_nothing_else() {
    let world = World::new();
    let engine = world.engine();
    let request = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    #[derive(Serialize)]
    struct Order {
        b: u32,
        a: u32,
    }
    assert!(pay(call(&engine, "k").fingerprint(&Order { b: 2, a: 1 }), "v").await.is_ok());
    let sorted: BTreeMap<&str, u32> = [("a", 1), ("b", 2)].into();
    assert!(never(call(&engine, "k").fingerprint(&sorted)).await.is_ok());
    assert!(never(call(&engine, "k").fingerprint(&request(r#" {"b":2, "a":1} "#))).await.is_ok());
    for engine in [&engine, &world.engine()] {
        let other = never(call(engine, "k").fingerprint(&request(r#"{"a":1,"b":3}"#))).await;
        assert!(matches!(other, Err(OnceError::Mismatch)));
    }
    assert_eq!(engine.stats().mismatched, 1);
}

/// A policy that only observes lets the other request through, counts it, and gives it the recorded answer.
#[tokio::test(start_paused = true)]
async fn observing_lets_a_mismatch_through() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.on_mismatch = OnMismatch::Observe));
    assert!(fails(call(&engine, "k").fingerprint("a"), Failure::Retryable).await.is_err());
    assert_eq!(pay(call(&engine, "k").fingerprint("b"), "v").await.unwrap().attempt, 2);
    let seen = engine.events().of(&id(&engine, "k"));
    assert!(seen.iter().any(|logged| logged.event.mismatch_observed));
    let engine = world.engine_with(policy(|policy| policy.fingerprint.mode = FingerprintMode::Observe));
    assert!(never(call(&engine, "k").fingerprint("c")).await.unwrap().replayed);
}

/// With the fingerprint off nothing is guarded, and nothing is stored of the request.
#[tokio::test(start_paused = true)]
async fn a_fingerprint_that_is_off_guards_nothing() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.fingerprint.mode = FingerprintMode::Off));
    assert!(pay(call(&engine, "k").fingerprint("a"), "v").await.is_ok());
    assert!(never(call(&engine, "k").fingerprint("b")).await.unwrap().replayed);
    let record = engine.explain(&id(&engine, "k")).await.unwrap().record.unwrap();
    assert_eq!(record.print, None);
}

/// A value that serde cannot write is still done: its effect happened.
#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_written_is_still_done() {
    #[derive(Debug, Deserialize)]
    struct Odd;
    impl Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("not today"))
        }
    }
    let world = World::new();
    let engine = world.engine();
    let run = || call(&engine, "k").once(|_| async { Ok::<_, Failed>(Odd) });
    assert!(run().await.is_ok());
    let again = run().await.unwrap_err();
    assert!(matches!(again, OnceError::AlreadyCompleted { .. }));
    assert!(again.to_string().contains("it could not be written as JSON"), "{again}");
}

/// A request that cannot be written has no fingerprint, so it is refused before anything happens.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_fingerprint_begins_nothing() {
    let world = World::new();
    let engine = world.engine();
    let odd: BTreeMap<(u8, u8), u8> = [((1, 2), 3)].into();
    assert!(matches!(never(call(&engine, "k").fingerprint(&odd)).await, Err(OnceError::Engine(_))));
    assert_eq!(world.store.calls(), 0);
}

/// The store is gone: by default nothing runs. Where the policy says so pure work goes on, marked, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_missing_store_stops_all_but_pure_work_that_may_go_on() {
    let world = World::new();
    let closed = world.engine();
    let open = world.engine_with(policy(|policy| policy.on_store_error = OnStoreError::FailOpen));
    for mood in [Mood::Down, Mood::Silent] {
        world.store.mood(mood);
        for effect in Effect::ALL {
            let given = pay(call(&closed, "k").effect(effect), "v").await;
            assert!(matches!(given, Err(OnceError::Engine(_))), "{effect}");
            let given = pay(call(&open, "k").effect(effect), "v").await;
            match effect {
                Effect::Pure => assert!(given.unwrap().unrecorded),
                Effect::Idempotent | Effect::Compensatable | Effect::Irreversible | Effect::Unsafe => {
                    assert!(matches!(given, Err(OnceError::Engine(_))), "{effect}");
                }
            }
        }
    }
    assert_eq!(open.stats().unrecorded, 2);
}

/// The store goes away while it runs. The outcome cannot be recorded, which the caller is told; pure work under a
/// policy that fails open gives its value, marked.
#[tokio::test(start_paused = true)]
async fn a_store_that_goes_away_meanwhile_is_told() {
    for (effect, open) in [(Effect::Pure, true), (Effect::Pure, false), (Effect::Unsafe, true)] {
        let world = World::new();
        let engine = world.engine_with(policy(|policy| {
            if open {
                policy.on_store_error = OnStoreError::FailOpen;
            }
        }));
        let store = Arc::clone(&world.store);
        let given: Given<u8> = call(&engine, "k")
            .effect(effect)
            .once(move |_| async move {
                store.mood(Mood::Down);
                Ok(7)
            })
            .await;
        match (effect, open) {
            (Effect::Pure, true) => assert!(given.unwrap().unrecorded),
            (_, _) => assert!(matches!(given, Err(OnceError::NotRecorded(_))), "{given:?}"),
        }
    }
}

/// The store goes away while an effect runs, and comes back. The caller is told that its outcome is not recorded, but
/// it is known and goes on being offered: the retry gets it, and there is no doubt to resolve.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_the_store_could_not_take_is_offered_again() {
    for (key, outage) in [("short", 20_000), ("beyond-the-lease", 90_000)] {
        let world = World::new();
        let engine = world.engine();
        let store = Arc::clone(&world.store);
        let running = call(&engine, key).once(move |_| async move {
            store.mood(Mood::Down);
            Ok::<_, Failed>("paid".to_owned())
        });
        assert!(matches!(running.await, Err(OnceError::NotRecorded(_))));
        sleep(outage).await;
        world.store.mood(Mood::Well);
        sleep(6_000).await;
        let again = never(call(&engine, key)).await.unwrap();
        assert_eq!((again.value.as_str(), again.replayed), ("paid", true));
    }
}

/// `once` over begin(not started): a start whose answer was lost is recognised, and it runs once.
#[tokio::test(start_paused = true)]
async fn once_starts_before_it_runs() {
    let world = World::new();
    let engine = world.engine();
    let ran = Arc::new(AtomicU32::new(0));
    for fault in [Fault::After, Fault::Before, Fault::Late(Landing::Released)] {
        let key = format!("{fault:?}").replace([' ', '(', ')'], "-");
        let (counter, faulty) = (Arc::clone(&ran), Arc::clone(&world.faulty));
        let begun = begin(call(&engine, &key).not_started()).await;
        faulty.script(fault);
        assert!(begun.start(&engine).await.unwrap().is_done());
        counter.fetch_add(1, SeqCst);
        assert!(begun.complete(&engine, done("1")).await.unwrap().is_done());
        faulty.release_late().await.unwrap();
        assert_eq!(state(&engine, &begun.id()).await, StateName::Committed);
    }
    let whole = pay(call(&engine, "whole").not_started(), "v").await.unwrap();
    assert!(!whole.replayed);
    assert!(never(call(&engine, "whole")).await.unwrap().replayed);
}

/// The start's answer is lost and the store stays away: nothing ran, so the key must not end in doubt.
#[tokio::test(start_paused = true)]
async fn a_start_of_unknown_fate_without_an_effect_leaves_no_doubt() {
    let world = World::new();
    let engine = seeded(world.builder().settings(hapax_engine::Settings { store_retries: 0, ..settings() }), 1);
    assert!(pay(call(&engine, "first"), "so that the usage is known").await.is_ok());
    // Begin is the first write; its start is the second.
    world.faulty.script(Fault::Slow(Millis(1)));
    world.faulty.script(Fault::After);
    let given = never(call(&engine, "k").not_started()).await;
    assert!(given.is_err(), "{given:?}");
    assert_eq!(world.faulty.injected().after, 1);
    sleep(61_000).await;
    let state = state(&engine, &id(&engine, "k")).await;
    assert_eq!(state, StateName::Absent, "nothing ran");
}

/// What is recorded cannot be read as the type that is asked for now: that is said, without showing what it is.
#[tokio::test(start_paused = true)]
async fn a_value_of_another_type_is_not_shown_in_the_error() {
    let world = World::new();
    let engine = world.engine();
    assert!(pay(call(&engine, "k"), "planted-secret").await.is_ok());
    let other: Given<u32> = call(&engine, "k").once(|_| async { panic!("it ran") }).await;
    assert!(matches!(other, Err(OnceError::AlreadyCompleted { .. })));
    assert!(!format!("{other:?} {}", other.as_ref().unwrap_err()).contains("planted"), "{other:?}");
}

/// Retention counts from the outcome and is not refreshed by replays; after it the key is new.
#[tokio::test(start_paused = true)]
async fn replays_do_not_prolong_the_retention() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.success = Span::For(Millis::from_secs(100))));
    assert!(pay(call(&engine, "k"), "first").await.is_ok());
    for _ in 0..9 {
        sleep(11_000).await;
        assert!(never(call(&engine, "k")).await.unwrap().replayed);
    }
    sleep(1_000).await;
    let new = pay(call(&engine, "k").wait(Wait::No), "second").await.unwrap();
    assert_eq!((new.value.as_str(), new.replayed), ("second", false));
    assert!(world.memory.now().is_some());
}

/// An irreversible effect is not run again after its window: the retry is told that it comes too late.
#[tokio::test(start_paused = true)]
async fn an_irreversible_effect_is_refused_after_its_window() {
    let world = World::new();
    let engine = world.engine();
    assert!(pay(call(&engine, "k").effect(Effect::Irreversible), "v").await.is_ok());
    sleep(86_400_000).await;
    let late = never(call(&engine, "k").effect(Effect::Irreversible)).await;
    let late = late.unwrap_err();
    assert!(matches!(late, OnceError::WindowClosed { rejected: false, .. }));
    assert!(late.to_string().starts_with("it was done at 2"), "{late}");
    sleep(90 * 86_400_000).await;
    assert!(pay(call(&engine, "k").effect(Effect::Irreversible), "new").await.is_ok());
}

/// The same for what was refused: whoever is told that it was done looks for a result that there never was.
#[tokio::test(start_paused = true)]
async fn a_late_retry_of_a_refusal_is_not_told_that_it_was_done() {
    let world = World::new();
    let engine = world.builder().wall_clock(Arc::new(FixedWall)).build().unwrap();
    let refund = || call(&engine, "k").effect(Effect::Irreversible);
    assert!(fails(refund(), Failure::Final).await.is_err());
    sleep(86_400_000).await;
    let late = never(refund()).await.unwrap_err().to_string();
    assert!(late.starts_with("it failed for good at 2024-02-29T23:59:59.999Z and the retry"), "{late}");
}

#[derive(Debug)]
struct FixedWall;
impl hapax_engine::WallClock for FixedWall {
    fn now(&self) -> WallMillis {
        WallMillis(1_709_251_199_999)
    }
}
