//! What can be seen from outside: events, explanations, shadow mode, reloads, tenants that never meet, and secrets
//! that are never shown.
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
    Cause, Effect, Millis, Policy, Span, StateName, Verdict,
    command::{Posture, Release, Resolution, Resolve},
    identity::{Secret, Surface},
    policy::{Admission, AfterWindow, Capacity, Mode, OnFull, OnLapse},
};
use hapax_engine::{
    Advice, Begun, Call, Engine, Entropy, EntropyError, Gap, OnceError, Policies, Settings, Stepped, Wait,
};
use hapax_store::Store;

fn story(engine: &Engine, key: &str) -> Vec<(Cause, StateName, StateName)> {
    let events = engine.events().of(&id(engine, key));
    events.iter().map(|logged| (logged.event.cause, logged.event.from, logged.event.to)).collect()
}

/// Each transition is one event, with its cause and both ends.
#[tokio::test(start_paused = true)]
async fn each_transition_is_one_event() {
    use Cause::*;
    use StateName::{Absent, Committed, InDoubt as Doubtful, Open, Pending, Rejected};
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "whole").not_started()).await;
    assert!(ticket.start(&engine).await.unwrap().is_done());
    assert!(ticket.renew(&engine).await.unwrap().is_done());
    assert!(ticket.complete(&engine, done("1")).await.unwrap().is_done());
    assert_eq!(
        story(&engine, "whole"),
        [
            (Begin, Absent, Pending),
            (Start, Pending, Pending),
            (Renew, Pending, Pending),
            (Complete, Pending, Committed)
        ]
    );
    let ticket = begin(call(&engine, "failed")).await;
    assert!(ticket.fail(&engine, retryable("no")).await.unwrap().is_done());
    let ticket = begin(call(&engine, "failed")).await;
    assert!(ticket.reject(&engine, refused("never")).await.unwrap().is_done());
    assert_eq!(
        story(&engine, "failed"),
        [(Begin, Absent, Pending), (Fail, Pending, Open), (Begin, Open, Pending), (Reject, Pending, Rejected)]
    );
    let ticket = begin(call(&engine, "released")).await;
    assert!(ticket.release(&engine, Release::NoEffect).await.unwrap().is_done());
    assert_eq!(story(&engine, "released"), [(Begin, Absent, Pending), (Release, Pending, Absent)]);
    let ticket = begin(call(&engine, "lapsed")).await;
    sleep(61_000).await;
    engine.sweep().await.unwrap();
    engine.sweep().await.unwrap();
    assert!(ticket.complete(&engine, done("1")).await.unwrap().is_done());
    assert_eq!(
        story(&engine, "lapsed"),
        [(Begin, Absent, Pending), (Lapse, Pending, Doubtful), (Complete, Doubtful, Committed)]
    );
    let late = engine.events().of(&ticket.id()).pop().unwrap();
    assert!(late.event.late && late.event.attempt == 1);
    sleep(86_400_000).await;
    engine.sweep().await.unwrap();
    assert_eq!(story(&engine, "lapsed").pop(), Some((Expire, Committed, Absent)));

    use hapax_core::command::Release;
}

/// The ring is bounded and can be resumed; who comes too late, or from another life of the process, is told of the gap.
#[tokio::test(start_paused = true)]
async fn the_ring_is_bounded_resumed_and_honest_about_gaps() {
    let world = World::new();
    let engine = world.builder().settings(Settings { events: 10, ..settings() }).build().unwrap();
    let mut newest = engine.events().subscribe();
    for number in 0..4 {
        assert!(pay(call(&engine, &format!("k{number}")), "v").await.is_ok());
    }
    assert_eq!(*newest.borrow_and_update(), 8);
    let all = engine.events().after(0).unwrap();
    assert_eq!(all.iter().map(|logged| logged.number).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    for number in 4..8 {
        assert!(pay(call(&engine, &format!("k{number}")), "v").await.is_ok());
    }
    assert_eq!(engine.events().after(0).unwrap().len(), 10);
    assert_eq!(engine.events().after(12).unwrap().first().unwrap().number, 13);
    assert_eq!(engine.events().after(16).unwrap().len(), 0);
    assert_eq!(engine.events().after(6).unwrap().first().unwrap().number, 7);
    assert_eq!(engine.events().after(5).unwrap_err(), Gap { oldest: 7 });
    assert_eq!(engine.events().after(17).unwrap_err(), Gap { oldest: 7 }, "no such event was ever logged here");
    assert_eq!(engine.events().after(u64::MAX).unwrap_err(), Gap { oldest: 7 });
}

/// For each state: what it is, until when, and what may safely be done about it.
#[tokio::test(start_paused = true)]
async fn every_state_is_explained_with_advice() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| {
        policy.on_lapse[Effect::Compensatable as usize] = Some(OnLapse::Stale);
        policy.after_window = Some(AfterWindow::Refuse);
    }));
    let explained = async |key: &str| {
        let explained = engine.explain(&id(&engine, key)).await.unwrap();
        (explained.state, explained.advice, explained.until.is_some())
    };
    assert_eq!(explained("nothing").await, (StateName::Absent, Advice::RunsAgain, false));
    let _pending = begin(call(&engine, "pending")).await;
    assert_eq!(explained("pending").await, (StateName::Pending, Advice::Wait, true));
    let open = begin(call(&engine, "open")).await;
    assert!(open.fail(&engine, retryable("no")).await.unwrap().is_done());
    assert_eq!(explained("open").await, (StateName::Open, Advice::RunsAgain, true));
    assert!(pay(call(&engine, "committed"), "v").await.is_ok());
    assert_eq!(explained("committed").await, (StateName::Committed, Advice::Replays, true));
    let rejected = begin(call(&engine, "rejected")).await;
    assert!(rejected.reject(&engine, refused("no")).await.unwrap().is_done());
    assert_eq!(explained("rejected").await, (StateName::Rejected, Advice::Replays, true));
    let _stale = begin(call(&engine, "stale").effect(Effect::Compensatable)).await;
    sleep(61_000).await;
    assert_eq!(explained("pending").await, (StateName::InDoubt, Advice::Resolve, false));
    assert_eq!(explained("stale").await, (StateName::Pending, Advice::Resolve, true));
    sleep(86_400_000).await;
    assert_eq!(explained("committed").await, (StateName::Tombstone, Advice::TooLate, true));
    let whole = engine.explain(&id(&engine, "committed")).await.unwrap();
    assert_eq!(whole.downstream_key, hapax_engine::downstream_key(&whole.id));
    assert!(whole.policy_is_current && !whole.recent.is_empty());
}

/// Shadow mode: everything runs, nothing waits, what would have been stopped is listed and counted, and none of its
/// records ever decides an enforced request.
#[tokio::test(start_paused = true)]
async fn shadow_mode_decides_everything_and_stops_nothing() {
    let world = World::new();
    let shadow = policy(|policy| {
        policy.mode = Mode::Shadow;
        policy.capacity = Capacity {
            max_records: 3,
            per_tenant: 3,
            max_tombstones: 30,
            bytes_per_tenant: None,
            on_full: OnFull::RejectNew,
        };
    });
    let engine = world.engine_with(shadow);
    let ran = Arc::new(AtomicU32::new(0));
    let run = |call: Call| {
        let ran = Arc::clone(&ran);
        call.once(move |_| async move { Ok::<_, Failed>(ran.fetch_add(1, SeqCst)) })
    };
    assert_eq!(run(call(&engine, "k").fingerprint("a")).await.unwrap().value, 0);
    let again = run(call(&engine, "k").fingerprint("a")).await.unwrap();
    assert_eq!((again.value, again.replayed), (1, false));
    assert_eq!(run(call(&engine, "k").fingerprint("b")).await.unwrap().value, 2);
    let running = begin(call(&engine, "running")).await;
    let before = tokio::time::Instant::now();
    assert_eq!(run(call(&engine, "running")).await.unwrap().value, 3);
    assert_eq!(before.elapsed().as_millis(), 0, "it did not even wait");
    sleep(61_000).await;
    assert_eq!(run(call(&engine, "running")).await.unwrap().value, 4);
    assert_eq!(run(call(&engine, "third")).await.unwrap().value, 5);
    assert_eq!(run(call(&engine, "too-many")).await.unwrap().value, 6);
    let because: Vec<_> = engine.shadow().list().iter().map(|stop| stop.because).collect();
    assert_eq!(because, ["replay", "mismatch", "in flight", "in doubt", "refused"]);
    assert_eq!(engine.stats().shadow_stops, 5);
    // Enforced, the very same keys are new.
    let enforced = world.engine_with(policy(|_| {}));
    assert!(!pay(call(&enforced, "k").fingerprint("c"), "v").await.unwrap().replayed);
    assert_eq!(pay(call(&enforced, "running"), "v").await.unwrap().attempt, 1);
    assert!(running.complete(&engine, done("1")).await.unwrap().is_done());
}

/// A shadow stops nothing, not even what cannot be recorded at all: a key or a request that cannot be used, and a machine
/// without randomness. Enforced, the same calls run nothing.
#[tokio::test(start_paused = true)]
async fn shadow_mode_does_not_stop_what_cannot_be_recorded() {
    #[derive(Debug)]
    struct Nothing;
    impl Entropy for Nothing {
        fn fill(&self, _: &mut [u8]) -> Result<(), EntropyError> {
            Err(EntropyError("none today".into()))
        }
    }
    let odd: BTreeMap<(u8, u8), u8> = [((1, 2), 3)].into();
    let secret = || Secret::new(&[7; 32]).unwrap();
    for mode in [Mode::Shadow, Mode::Enforce] {
        let world = World::new();
        let surface = policy(|policy| policy.mode = mode);
        let engine = world.engine_with(surface.clone());
        let dull = world.builder().policy("pay", surface).secret(secret()).entropy(Arc::new(Nothing)).build().unwrap();
        for (call, because) in [
            (call(&engine, "").effect(Effect::Pure), "bad key"),
            (call(&engine, "k").fingerprint(&odd), "no fingerprint"),
            (call(&dull, "k"), "no randomness"),
        ] {
            let shadow = if because == "no randomness" { dull.shadow() } else { engine.shadow() };
            let (peeked, given) = (call.peek().await, pay(call, "v").await);
            match mode {
                Mode::Shadow => {
                    assert!(matches!(peeked, Ok(None)), "{because}: {peeked:?}");
                    assert_eq!(given.unwrap().value, "v", "{because}");
                    assert_eq!(shadow.list().last().map(|stop| stop.because), Some(because));
                }
                Mode::Enforce => assert!(matches!(given, Err(OnceError::Engine(_))), "{because}: {given:?}"),
            }
        }
    }
}

/// Shadow mode gives the value of what ran whatever happens to its record: store gone before, meanwhile, or overtaken.
#[tokio::test(start_paused = true)]
async fn shadow_mode_hides_no_value() {
    for effect in [Effect::Pure, Effect::Unsafe] {
        let world = World::new();
        let engine = world.engine_with(policy(|policy| policy.mode = Mode::Shadow));
        world.store.mood(Mood::Down);
        assert_eq!(pay(call(&engine, "before").effect(effect), "v").await.unwrap().value, "v");
        world.store.mood(Mood::Well);
        let store = Arc::clone(&world.store);
        let meanwhile: Given<u8> = call(&engine, "meanwhile")
            .effect(effect)
            .once(move |_| async move {
                store.mood(Mood::Down);
                sleep(100_000).await;
                Ok(7)
            })
            .await;
        assert_eq!(meanwhile.unwrap().value, 7, "{effect}: a lost lease stops nothing");
        world.store.mood(Mood::Well);
        let other = world.engine_with(policy(|policy| policy.mode = Mode::Shadow));
        let overtaken: Given<u8> = call(&engine, "overtaken")
            .effect(effect)
            .once(move |ticket| async move {
                let version = other.version(&ticket.id()).await.unwrap();
                let resolution = Resolution::Open(Posture::Idempotent);
                let resolve = Resolve { version, resolution, actor: "ann".into(), reason: "why not".into() };
                assert!(other.resolve(&ticket.id(), resolve).await.unwrap().is_done());
                Ok(8)
            })
            .await;
        assert_eq!(overtaken.unwrap().value, 8, "{effect}");
    }
}

/// Policies are reloaded while work is under way: what was begun keeps what it was begun under.
#[tokio::test(start_paused = true)]
async fn a_reload_does_not_change_what_was_begun() {
    let world = World::new();
    let engine = world.engine();
    let stale = begin(call(&engine, "lapses")).await;
    assert!(pay(call(&engine, "kept"), "v").await.is_ok());
    let mut policies = Policies::default();
    let mut strict = policy(|policy| {
        policy.on_lapse = [Some(OnLapse::Stale); 5];
        policy.success = Span::For(Millis::from_secs(100));
        policy.lease = Millis::from_secs(10);
        policy.after_window = Some(AfterWindow::Refuse);
    });
    strict.open_retention = Some(Span::For(Millis::from_secs(1)));
    policies.set(Surface::new("pay").unwrap(), strict).unwrap();
    engine.reload(policies);
    let explained = engine.explain(&stale.id()).await.unwrap();
    assert!(!explained.policy_is_current);
    sleep(30_000).await;
    assert_eq!(state(&engine, &stale.id()).await, StateName::Pending, "its lease is the old one");
    sleep(31_000).await;
    assert_eq!(state(&engine, &stale.id()).await, StateName::InDoubt, "its lapse is the old one");
    sleep(1_000_000).await;
    assert!(never(call(&engine, "kept")).await.unwrap().replayed, "its retention is the old one");
    let new = begin(call(&engine, "new")).await;
    sleep(11_000).await;
    assert_eq!(state(&engine, &new.id()).await, StateName::Pending, "the new one is stale by the new rules");
    assert!(matches!(new.complete(&engine, done("1")).await.unwrap(), Stepped::Done(done) if done.late));
}

/// A reload that cannot be used is refused by name, and what was in force stays.
#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_be_used_is_refused() {
    let mut policies = Policies::default();
    let wrong = policy(|policy| policy.lease = Millis::ZERO);
    assert!(policies.set(Surface::new("pay").unwrap(), wrong.clone()).is_err());
    assert!(World::new().builder().policy("pay", wrong).build().is_err());
    let demanding = Settings { demand_durable: true, ..settings() };
    assert!(World::new().builder().settings(demanding).build().is_err(), "memory promises nothing");
}

fn of(engine: &Engine, tenant: &str) -> Call {
    engine.surface("pay").tenant(tenant).key("the-same-key")
}

/// Two tenants, one key, every path: values, mismatches, waiting, doubt, quota, admission, gate, explain. Never do
/// they meet.
#[tokio::test(start_paused = true)]
async fn tenants_never_meet() {
    let world = World::new();
    let tight = policy(|policy| {
        policy.capacity = Capacity {
            max_records: 100,
            per_tenant: 1,
            max_tombstones: 100,
            bytes_per_tenant: None,
            on_full: OnFull::EvictOldestFinal,
        };
        policy.admission = Some(Admission { max_in_flight: 10, per_tenant: 1 });
    });
    let engine = world.engine_with(tight);
    assert_eq!(pay(of(&engine, "a").fingerprint("a's"), "a's").await.unwrap().value, "a's");
    // Neither value nor mismatch.
    let b = pay(of(&engine, "b").fingerprint("b's"), "b's").await.unwrap();
    assert_eq!((b.value.as_str(), b.replayed, b.attempt), ("b's", false, 1));
    assert_eq!(never(of(&engine, "a").fingerprint("a's")).await.unwrap().value, "a's");
    assert_eq!(never(of(&engine, "b").fingerprint("b's")).await.unwrap().value, "b's");
    // Neither waiting nor admission.
    let runs = begin(of(&engine, "c")).await;
    let other = begin(of(&engine, "d")).await;
    assert!(matches!(of(&engine, "c").wait(Wait::No).begin().await.unwrap(), Begun::Told(Verdict::InFlight { .. })));
    // Neither quota nor eviction.
    let second = pay(engine.surface("pay").tenant("a").key("second"), "v").await;
    assert!(second.is_ok(), "{second:?}");
    assert!(matches!(never(of(&engine, "a")).await, Err(OnceError::AlreadyCompleted { .. })));
    assert_eq!(never(of(&engine, "b")).await.unwrap().value, "b's");
    // Neither doubt nor tokens.
    sleep(61_000).await;
    assert!(matches!(never(of(&engine, "c")).await, Err(OnceError::InDoubt { .. })));
    assert!(other.release(&engine, Release::NoEffect).await.unwrap().is_done());
    assert!(pay(of(&engine, "d"), "v").await.is_ok());
    let stolen = engine.complete(&of(&engine, "b").id().unwrap(), runs.token(), done("stolen")).await.unwrap();
    assert!(matches!(stolen, Stepped::Fenced));
    assert_eq!(never(of(&world.engine(), "b")).await.unwrap().value, "b's");
    // Neither ids nor explanations.
    let ids: std::collections::HashSet<_> =
        ["a", "b", "c", "d", "a b"].iter().map(|tenant| of(&engine, tenant).id().unwrap()).collect();
    assert_eq!(ids.len(), 5);
    for tenant in ["a", "b", "c", "d"] {
        let explained = engine.explain(&of(&engine, tenant).id().unwrap()).await.unwrap();
        assert_eq!(&*explained.record.as_ref().unwrap().about.tenant, tenant);
        assert!(explained.recent.iter().all(|logged| &*logged.about.tenant == tenant));
    }
    // Nor do scopes within a tenant.
    let shop = |shop: &str| engine.surface("pay").tenant("e").within("shop", shop).key("the-same-key");
    assert_ne!(shop("1").id().unwrap(), shop("2").id().unwrap());
    assert_ne!(shop("1").id().unwrap(), of(&engine, "e").id().unwrap());
}

/// One tenant waits for its own: a crowd of its callers does not use up what others may wait.
#[tokio::test(start_paused = true)]
async fn no_surface_or_tenant_name_can_reach_into_another() {
    let world = World::new();
    let engine = world.engine();
    for (surface, tenant) in [("pay~shadow", "acme"), ("", "acme"), ("pay", ""), ("pay", "a\nb")] {
        let given = never(engine.surface(surface).tenant(tenant).key("k")).await;
        assert!(matches!(given, Err(OnceError::Engine(_))), "{surface:?} {tenant:?}");
    }
    assert!(matches!(never(engine.surface("pay").tenant("acme").key("")).await, Err(OnceError::Engine(_))));
    assert_eq!(world.store.calls(), 0);
}

/// Planted secrets, the raw key, a body, a nonce, never show in what may be logged: errors, events, explanations,
/// tickets, the engine itself.
#[tokio::test(start_paused = true)]
async fn secrets_are_never_shown() {
    const KEY: &str = "planted-key-3141592653";
    const BODY: &str = "planted-body-2718281828";
    const REQUEST: &str = "planted-request-1618033988";
    let world = World::new();
    let engine = world.engine();
    let mut shown = Vec::new();
    let ask = || call(&engine, KEY).fingerprint(REQUEST);
    let ticket = begin(ask()).await;
    let nonce = ticket.token().to_text().split_once('.').unwrap().1.to_owned();
    shown.push(format!("{ticket:?} {:?}", ask()));
    shown.push(format!("{:?}", ask().wait(Wait::No).begin().await));
    let body = format!("\"{BODY}\"");
    assert!(ticket.complete(&engine, hapax_core::Outcome::success(body.clone())).await.unwrap().is_done());
    shown.push(format!("{:?}", call(&engine, KEY).fingerprint("another").begin().await));
    let wrong: Given<u32> = ask().once(|_| async { panic!("it ran") }).await;
    shown.push(format!("{wrong:?} {}", wrong.as_ref().unwrap_err()));
    let older = begin(call(&engine, "other")).await;
    assert!(
        older
            .fail(
                &engine,
                hapax_core::Outcome {
                    class: hapax_core::OutcomeClass::RetryableFailure,
                    ..hapax_core::Outcome::success(body.clone())
                }
            )
            .await
            .unwrap()
            .is_done()
    );
    let _newer = begin(call(&engine, "other")).await;
    assert!(matches!(older.complete(&engine, hapax_core::Outcome::success(body)).await.unwrap(), Stepped::Fenced));
    for key in [KEY, "other"] {
        shown.push(format!("{:?}", engine.explain(&id(&engine, key)).await.unwrap()));
    }
    world.store.mood(Mood::Down);
    let gone = call(&engine, KEY).fingerprint("third").begin().await.unwrap_err();
    shown.push(format!("{gone:?} {gone}"));
    shown.push(format!("{:?} {:?} {:?}", engine, engine.events().after(0), engine.shadow()));
    shown.push(format!("{:?}", call(&engine, &format!("{KEY} with a space")).begin().await));
    for text in shown {
        for secret in [KEY, BODY, REQUEST, nonce.as_str(), &nonce[8..]] {
            assert!(!text.contains(secret), "{secret} is shown in {text}");
        }
    }
    // The raw key is in no record either.
    let stored = world.stored(&ticket.id()).await.record.unwrap();
    assert!(!String::from_utf8_lossy(&stored.payload).contains(KEY));
    assert!(world.memory.name().len() < 100);
}

/// The counters tell what happened.
#[tokio::test(start_paused = true)]
async fn what_happened_is_counted() {
    let world = World::new();
    let engine = world.engine_with(Policy { ..policy(|_| {}) });
    assert!(pay(call(&engine, "k").fingerprint("a"), "v").await.is_ok());
    assert!(never(call(&engine, "k").fingerprint("a")).await.is_ok());
    assert!(never(call(&engine, "k").fingerprint("b")).await.is_err());
    let runs = begin(call(&engine, "runs")).await;
    assert!(never(call(&engine, "runs").wait(Wait::No)).await.is_err());
    sleep(61_000).await;
    engine.sweep().await.unwrap();
    assert!(never(call(&engine, "runs")).await.is_err());
    assert!(runs.complete(&engine, done("1")).await.unwrap().is_done());
    let stats = engine.stats();
    assert_eq!((stats.executed, stats.replayed, stats.mismatched, stats.in_flight), (2, 1, 1, 1));
    assert_eq!((stats.in_doubt, stats.late, stats.lapsed, stats.fenced), (1, 1, 1, 0));
}
