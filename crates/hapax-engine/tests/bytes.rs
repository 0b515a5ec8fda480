//! What one tenant's records may take: reached by what was under way, never by what comes after it, and never at the cost of
//! an answer or of another tenant.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::Ordering::SeqCst;

use crate::support::*;
use hapax_core::{
    Effect, Millis, Outcome, Policy, RefusalReason, Span, StateName, Tag,
    identity::{Surface, Tenant},
    policy::{Admission, Capacity, OnFull},
};
use hapax_engine::{Call, Engine, OnceError, Policies, Wait};
use hapax_store::Store;

/// What the tests have room for. An answer takes 1,000 bytes, and what is around it less than half of that.
const MOST: u64 = 10_000;
const ANSWER: usize = 1_000;

fn limited(on_full: OnFull) -> Policy {
    policy(|policy| {
        policy.capacity = Capacity { bytes_per_tenant: Some(MOST), ..Capacity::of(100_000, on_full) };
        policy.capture.inline = 16 << 10;
        policy.success = Span::For(Millis::from_secs(100));
    })
}

fn of(engine: &Engine, tenant: &str, key: usize) -> Call {
    engine.surface("pay").tenant(tenant).key(format!("k{key}")).effect(Effect::Idempotent)
}

fn full(given: &Given<String>) -> bool {
    matches!(given, Err(OnceError::Refused(refusal)) if refusal.reason == RefusalReason::Bytes)
}

fn answer(length: usize) -> String {
    "a".repeat(length)
}

/// Does it, with an answer of so many bytes.
async fn say(call: Call, length: usize) -> Given<String> {
    call.once(move |_| async move { Ok::<_, Failed>(answer(length)) }).await
}

/// What the store says that the tenant's records take.
async fn taken(world: &World) -> u64 {
    let tag = Tag::tenant(&Surface::new("pay").unwrap(), &Tenant::new("acme").unwrap());
    world.memory.usage(tag).await.unwrap().bytes
}

/// One after the other until one is refused. How many were kept.
async fn fill(engine: &Engine, tenant: &str, length: usize) -> usize {
    for key in 0..1_000 {
        let given = say(of(engine, tenant, key), length).await;
        if full(&given) {
            return key;
        }
        assert!(given.is_ok(), "{given:?}");
    }
    panic!("nothing was ever refused");
}

/// A tenant keeps answers until its bytes are used up. New work is refused then and leaves nothing; what was done is answered,
/// its neighbour is served, and once its records have expired there is room again.
#[tokio::test(start_paused = true)]
async fn new_work_is_refused_once_the_bytes_are_used_up() {
    let world = World::new();
    let engine = world.engine_with(limited(OnFull::RejectNew));
    let kept = fill(&engine, "acme", ANSWER).await;
    let bytes = taken(&world).await;
    assert!((MOST..MOST + 1_500).contains(&bytes), "{bytes} bytes in {kept} records");
    for key in kept..kept + 3 {
        let refused = never(of(&engine, "acme", key)).await;
        assert!(full(&refused), "{refused:?}");
        assert!(refused.unwrap_err().to_string().contains("bytes"));
        assert!(world.stored(&of(&engine, "acme", key).id().unwrap()).await.record.is_none());
    }
    // Also in a process that has not got it at hand.
    let elsewhere = world.engine_with(limited(OnFull::RejectNew));
    for engine in [&engine, &elsewhere] {
        let again = never(of(engine, "acme", 0)).await.unwrap();
        assert_eq!((again.value, again.replayed), (answer(ANSWER), true));
    }
    assert!(pay(of(&engine, "other", 0), "v").await.is_ok());
    sleep(101_000).await;
    assert!(pay(of(&engine, "acme", kept), "v").await.is_ok(), "what has expired stands in nobody's way");
    engine.sweep().await.unwrap();
    let left = taken(&world).await;
    assert!(left < 500, "{left} bytes are counted where one small record is kept");
}

/// Whoever comes while the work is under way joins it, and one in doubt is told so, however full it is.
#[tokio::test(start_paused = true)]
async fn no_other_verdict_is_hidden() {
    let world = World::new();
    let engine = world.engine_with(limited(OnFull::RejectNew));
    let call = || engine.surface("pay").tenant("acme").key("k");
    let owner = begin(call().fingerprint("a")).await;
    fill(&engine, "acme", ANSWER).await;
    assert!(matches!(never(call().wait(Wait::No)).await, Err(OnceError::InFlight { .. })));
    assert!(matches!(never(call().fingerprint("b")).await, Err(OnceError::Mismatch)));
    assert!(owner.renew(&engine).await.unwrap().is_done(), "whoever has begun goes on");
    assert!(owner.complete(&engine, Outcome::success(format!("{:?}", answer(ANSWER)))).await.unwrap().is_done());
    assert!(never(call()).await.unwrap().replayed);
}

/// The answers are too long to lie inside their records: what lies beside them counts all the same, and is given back.
#[tokio::test(start_paused = true)]
async fn bodies_out_of_line_count() {
    let world = World::new();
    let mut policy = limited(OnFull::RejectNew);
    policy.capture.inline = 64;
    let engine = world.engine_with(policy);
    let kept = fill(&engine, "acme", 3_000).await;
    assert!((3..=4).contains(&kept), "{kept} answers of 3,000 bytes were kept where 10,000 may be");
    let record = world.stored(&of(&engine, "acme", 0).id().unwrap()).await.record.unwrap();
    assert!(record.payload.len() < 1_000 && record.beside >= 3_000, "{} and {}", record.payload.len(), record.beside);
    sleep(101_000).await;
    engine.sweep().await.unwrap();
    assert_eq!(taken(&world).await, 0);
    assert!(pay(of(&engine, "acme", 99), "v").await.is_ok());
}

/// Ten had begun when the bytes ran out. Each of them completes, since its effect has happened; the tenant is above its limit
/// by what these ten have written and no more, and nothing new begins.
#[tokio::test(start_paused = true)]
async fn what_was_under_way_is_all_that_goes_beyond() {
    let world = World::new();
    let engine = world.engine_with(limited(OnFull::RejectNew));
    let mut under_way = Vec::new();
    for key in 1_000..1_010 {
        under_way.push(begin(of(&engine, "acme", key)).await);
    }
    fill(&engine, "acme", ANSWER).await;
    let before = taken(&world).await;
    for ticket in under_way {
        assert!(ticket.complete(&engine, Outcome::success(format!("{:?}", answer(ANSWER)))).await.unwrap().is_done());
        assert!(full(&never(of(&engine, "acme", 5_000)).await));
    }
    let after = taken(&world).await;
    assert!(before >= MOST && after <= before + 10 * 1_500, "{before}, then {after}");
}

/// Four at a time, sixty-four in all: what was completed counts at once, so the tenant ends no higher than four answers above
/// its limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_goes_no_further_beyond_than_what_it_has_under_way() {
    for round in 0..5 {
        let world = World::new();
        let mut policy = limited(OnFull::RejectNew);
        policy.admission = Some(Admission { max_in_flight: 4, per_tenant: 4 });
        let engine = world.engine_with(policy);
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..8 {
            let engine = engine.clone();
            tasks.spawn(async move {
                for key in 0..40 {
                    let given = say(of(&engine, "acme", task * 1_000 + key), ANSWER).await;
                    assert!(matches!(given, Ok(_) | Err(OnceError::Refused(_))), "{given:?}");
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let bytes = taken(&world).await;
        assert!((MOST..MOST + 4 * 1_500).contains(&bytes), "round {round}: {bytes} bytes");
    }
}

/// Where the policy evicts, as many of the oldest go as it takes, each leaves its digest, and no other tenant loses any.
#[tokio::test(start_paused = true)]
async fn the_oldest_make_room_where_the_policy_says_so() {
    let world = World::new();
    let engine = world.engine_with(limited(OnFull::EvictOldestFinal));
    assert!(pay(of(&engine, "other", 0), "o").await.is_ok());
    for key in 0..20 {
        assert!(pay(of(&engine, "acme", key), "small").await.is_ok());
    }
    // A large one, after which many small ones have to go for the next.
    assert!(say(of(&engine, "acme", 20), 9_900).await.is_ok());
    let evicted = engine.stats().evicted;
    assert!(pay(of(&engine, "acme", 21), "small").await.is_ok());
    assert!(engine.stats().evicted > evicted + 5, "{} were evicted", engine.stats().evicted);
    assert_eq!(state(&engine, &of(&engine, "acme", 0).id().unwrap()).await, StateName::Tombstone);
    assert_eq!(state(&engine, &of(&engine, "other", 0).id().unwrap()).await, StateName::Committed);
    for key in 22..200 {
        let given = say(of(&engine, "acme", key), ANSWER).await;
        assert!(given.is_ok(), "{given:?}");
        let bytes = taken(&world).await;
        assert!(bytes < MOST + 1_500, "{bytes}");
    }
}

/// A tenant has a hundred failures that may be tried again. Each needs no further record, and would fill it all the same.
#[tokio::test(start_paused = true)]
async fn another_attempt_needs_room_for_what_it_will_say() {
    let world = World::new();
    let engine = world.engine_with(limited(OnFull::RejectNew));
    let first = begin(of(&engine, "acme", 5_000)).await;
    assert!(first.fail(&engine, retryable("busy")).await.unwrap().is_done());
    fill(&engine, "acme", ANSWER).await;
    assert!(full(&never(of(&engine, "acme", 5_000)).await));
    assert_eq!(state(&engine, &of(&engine, "acme", 5_000).id().unwrap()).await, StateName::Open, "it is as it was");
    sleep(101_000).await;
    assert!(pay(of(&engine, "acme", 6_000), "v").await.is_ok());
}

/// The limit is set while the tenant keeps more than that: it holds from the next request on, and goes with the next file.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_set_later_holds_at_once() {
    let world = World::new();
    let mut unlimited = limited(OnFull::RejectNew);
    unlimited.capacity.bytes_per_tenant = None;
    let engine = world.engine_with(unlimited.clone());
    for key in 0..30 {
        assert!(say(of(&engine, "acme", key), ANSWER).await.is_ok());
    }
    let reload = |policy: Policy| {
        let mut policies = Policies::default();
        policies.set(Surface::new("pay").unwrap(), policy).unwrap();
        engine.reload(policies);
    };
    reload(limited(OnFull::RejectNew));
    assert!(full(&never(of(&engine, "acme", 30)).await));
    assert!(never(of(&engine, "acme", 0)).await.unwrap().replayed);
    reload(unlimited);
    assert!(pay(of(&engine, "acme", 30), "v").await.is_ok());
}

/// Far from the limit the store is not asked what a tenant keeps each time something begins.
#[tokio::test(start_paused = true)]
async fn the_store_is_asked_only_when_room_could_be_used_up() {
    let world = World::new();
    let mut policy = limited(OnFull::RejectNew);
    policy.capacity.bytes_per_tenant = Some(100 << 20);
    let engine = world.engine_with(policy);
    for key in 0..100 {
        assert!(say(of(&engine, "acme", key), ANSWER).await.is_ok());
    }
    let asked = world.store.usages.load(SeqCst);
    assert!(asked <= 4, "asked {asked} times for a hundred begins");
}
