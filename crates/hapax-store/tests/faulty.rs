//! The twin does what it is told, and the same for the same seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Id, Millis, Tag, Version};
use hapax_store::{
    BodyId, Counted, Envelope, Fault, FaultyStore, Injected, Kind, Landing, MemoryStore, Odds, Plan, Store, StoreError,
    Swap,
};

const ID: Id = Id([7; 32]);

fn record(text: &'static str) -> Envelope {
    Envelope {
        kind: Kind::OPERATION,
        surface: Tag([1; 16]),
        tenant: Tag([2; 16]),
        counted: Counted::Record,
        lease_end: None,
        expiry: None,
        gone: None,
        in_doubt: false,
        entries: vec![],
        beside: 0,
        payload: Bytes::from_static(text.as_bytes()),
    }
}

fn twin(plan: Plan) -> (Arc<dyn Store>, FaultyStore) {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::default());
    (Arc::clone(&inner), FaultyStore::new(inner, plan))
}

async fn held(store: &dyn Store) -> Option<Bytes> {
    store.get(&ID).await.unwrap().record.map(|record| record.payload)
}

#[tokio::test]
async fn an_error_before_the_write_leaves_nothing() {
    let (inner, twin) = twin(Plan::quiet().then(Fault::Before));
    let answer = twin.swap(&ID, Version::NEVER, Some(record("a"))).await;
    assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
    assert_eq!(inner.get(&ID).await.unwrap().version, Version::NEVER);
    assert!(matches!(twin.swap(&ID, Version::NEVER, Some(record("a"))).await, Ok(Swap::Swapped { .. })));
}

#[tokio::test]
async fn a_lost_answer_leaves_the_write() {
    let (inner, twin) = twin(Plan::quiet().then(Fault::After));
    let answer = twin.swap(&ID, Version::NEVER, Some(record("a"))).await;
    assert!(answer.is_err_and(|error| error.is_unknown()));
    assert_eq!(held(inner.as_ref()).await, Some(Bytes::from("a")));
}

#[tokio::test]
async fn a_late_write_lands_if_nobody_moved_the_version() {
    let (inner, twin) = twin(Plan::quiet().then(Fault::Late(Landing::Released)));
    assert!(twin.swap(&ID, Version::NEVER, Some(record("late"))).await.is_err_and(|error| error.is_unknown()));
    assert_eq!(held(inner.as_ref()).await, None);
    assert_eq!(twin.waiting(), 1);
    assert_eq!(twin.release_late().await, Ok(1));
    assert_eq!(held(inner.as_ref()).await, Some(Bytes::from("late")));
}

/// C3: the engine reads absent, calls the unknown begin settled; then the write lands. Disowning is a write.
#[tokio::test]
async fn a_late_write_conflicts_once_it_was_disowned() {
    let (inner, twin) = twin(Plan::quiet().then(Fault::Late(Landing::Released)));
    assert!(twin.swap(&ID, Version::NEVER, Some(record("late"))).await.is_err());
    assert!(matches!(twin.swap(&ID, Version::NEVER, None).await, Ok(Swap::Swapped { .. })));
    assert_eq!(twin.release_late().await, Ok(0));
    assert_eq!(held(inner.as_ref()).await, None);
    assert_eq!(twin.injected(), Injected { late: 1, late_conflicted: 1, ..Injected::default() });
}

#[tokio::test(start_paused = true)]
async fn a_late_write_lands_by_itself_after_its_time() {
    let (inner, twin) = twin(Plan::quiet().then(Fault::Late(Landing::After(Millis::from_secs(9)))));
    assert!(twin.swap(&ID, Version::NEVER, Some(record("late"))).await.is_err());
    tokio::time::sleep(Millis::from_secs(8).as_std()).await;
    assert_eq!(held(inner.as_ref()).await, None);
    tokio::time::sleep(Millis::from_secs(2).as_std()).await;
    assert_eq!(held(inner.as_ref()).await, Some(Bytes::from("late")));
}

#[tokio::test]
async fn a_late_write_lands_before_some_later_call() {
    let odds = Odds { landing: 500, ..Odds::default() };
    let (_, twin) = twin(Plan::seeded(3, odds).then(Fault::Late(Landing::SomeCall)));
    assert!(twin.swap(&ID, Version::NEVER, Some(record("late"))).await.is_err());
    for _ in 0..100 {
        if held(&twin).await.is_some() {
            return;
        }
    }
    panic!("a hundred calls, and it never landed");
}

#[tokio::test]
async fn a_stale_connection_recovers() {
    let (_, twin) = twin(Plan::quiet().then(Fault::Stale(3)));
    for _ in 0..3 {
        assert!(twin.get(&ID).await.is_err());
    }
    assert!(twin.get(&ID).await.is_ok());
    assert_eq!(twin.injected().stale, 3);
}

#[tokio::test(start_paused = true)]
async fn reads_are_lost_slow_and_right_again() {
    let (_, twin) = twin(Plan::quiet().then(Fault::LostRead).then(Fault::Slow(Millis::from_secs(5))));
    assert!(twin.get(&ID).await.is_err());
    let before = tokio::time::Instant::now();
    assert!(twin.get(&ID).await.is_ok());
    assert!(before.elapsed() >= Millis::from_secs(5).as_std());
    assert!(twin.get(&ID).await.is_ok());
}

#[tokio::test]
async fn bodies_have_the_same_accidents() {
    let body = BodyId([9; 32]);
    let (inner, twin) = twin(Plan::quiet().then(Fault::Late(Landing::Released)).then(Fault::After));
    assert!(twin.put_body(&ID, body, Bytes::from("x")).await.is_err_and(|error| error.is_unknown()));
    assert_eq!(inner.get_body(body).await, Ok(None));
    assert_eq!(twin.release_late().await, Ok(1));
    assert_eq!(inner.get_body(body).await, Ok(Some(Bytes::from("x"))));
    assert!(twin.drop_body(body).await.is_err_and(|error| error.is_unknown()));
    assert_eq!(inner.get_body(body).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_lost_watch_never_wakes() {
    let (_, twin) = twin(Plan::quiet().then(Fault::LostWatch));
    let mut lost = twin.watch(&ID).await.unwrap();
    let mut good = twin.watch(&ID).await.unwrap();
    assert!(matches!(twin.swap(&ID, Version::NEVER, Some(record("a"))).await, Ok(Swap::Swapped { .. })));
    good.changed().await;
    assert!(tokio::time::timeout(Millis::from_hours(1).as_std(), lost.changed()).await.is_err());
}

#[tokio::test]
async fn the_same_seed_is_the_same_history() {
    async fn history(seed: u64) -> (Vec<String>, Injected) {
        let (_, twin) = twin(Plan::seeded(seed, Odds::ROUGH));
        let mut told = Vec::new();
        for _ in 0..300 {
            let version = twin.get(&ID).await.map_or(Version::NEVER, |held| held.version);
            let answer = match twin.swap(&ID, version, Some(record("x"))).await {
                Ok(Swap::Swapped { version, .. }) => format!("swapped {version}"),
                Ok(Swap::Conflict(held)) => format!("conflict {}", held.version),
                Err(error) => error.to_string(),
            };
            told.push(answer);
        }
        (told, twin.injected())
    }
    let (first, injected) = history(11).await;
    assert_eq!((first.clone(), injected), history(11).await);
    assert_ne!(first, history(12).await.0);
    let Injected { before, after, late, lost_reads, stale, .. } = injected;
    assert!([before, after, late, lost_reads, stale].iter().all(|count| *count > 0), "{injected:?}");
}
