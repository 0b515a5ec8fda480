//! Streams through the client in Rust: their start and their end are recorded by a real daemon.

use std::{sync::Arc, time::Duration};

use crate::support::Setup;
use hapax_client::{
    Client, Effect, Error,
    agents::{Activity, Answer, Stream, StreamBegun},
};
use hapax_core::Millis;
use hapax_engine::Policies;
use hapax_store::{Clock, ManualClock, MemoryStore, Store};

fn saying(client: &Client, node: &str, effect: Effect) -> Activity {
    client.activity("run-1", node, 0, "openai:chat").effect(effect).wait(Duration::ZERO)
}

async fn opened(client: &Client, node: &str, effect: Effect) -> Stream {
    let begun = saying(client, node, effect).stream().await.unwrap();
    let StreamBegun::Open(stream) = begun else { panic!("{begun:?}") };
    stream
}

/// A stream is asked for while it runs, and after its end: it is not made twice, and what it was is known.
#[tokio::test]
async fn a_stream_that_ended_is_not_made_again_and_one_that_broke_off_is_in_doubt() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let stream = opened(&client, "say", Effect::Irreversible).await;
    assert_eq!(stream.outgoing().header.as_deref(), Some("Idempotency-Key"));
    let running = saying(&client, "say", Effect::Irreversible).stream().await;
    assert!(matches!(running, Err(Error::InFlight(_))), "{running:?}");
    stream.end(200, 5, [0xab; 32]).await.unwrap();
    let again = saying(&client, "say", Effect::Irreversible).stream().await.unwrap();
    let StreamBegun::Finished(end) = again else { panic!("{again:?}") };
    assert_eq!((end.status, end.length, end.digest), (200, 5, "ab".repeat(32)));

    opened(&client, "cut", Effect::Irreversible).await.broken("the connection was cut").await.unwrap();
    let cut = saying(&client, "cut", Effect::Irreversible).stream().await;
    assert!(matches!(cut, Err(Error::InDoubt(_))), "{cut:?}");
    opened(&client, "harmless", Effect::Idempotent).await.broken("the connection was cut").await.unwrap();
    drop(opened(&client, "harmless", Effect::Idempotent).await);

    // A provider that refuses answers without a stream.
    let refused = Answer { status: 422, body: "no such model".to_owned(), ..Answer::default() };
    opened(&client, "refused", Effect::Irreversible).await.answered(&refused).await.unwrap();
    let again = saying(&client, "refused", Effect::Irreversible).stream().await.unwrap();
    assert!(matches!(&again, StreamBegun::Answered(answer) if *answer == refused), "{again:?}");
}

/// The process dies between the start and the end. Whether it happened is unknown once the lease is over: what may be repeated
/// is called again, nothing else is.
#[tokio::test]
async fn a_crash_between_start_and_end_leaves_a_doubt_unless_it_may_be_repeated() {
    let clock = Arc::new(ManualClock::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
    let daemon = Setup { store, ..Setup::default() }.start().await;
    let client = daemon.client();
    let dying = opened(&client, "once", Effect::Irreversible).await;
    let operation = dying.outgoing().ticket.operation.clone();
    drop(dying);
    drop(opened(&client, "again", Effect::Idempotent).await);
    clock.advance(Millis::from_hours(1));
    match saying(&client, "once", Effect::Irreversible).stream().await {
        Err(Error::InDoubt(refusal)) => assert_eq!(refusal.operation, Some(operation)),
        other => panic!("{other:?}"),
    }
    let stream = opened(&client, "again", Effect::Idempotent).await;
    assert_eq!(stream.outgoing().ticket.attempt, 2);
    stream.end(200, 5, [1; 32]).await.unwrap();
}

/// A stream takes longer than its lease: it is renewed while the guard lives, and nobody else gets to call the provider.
#[tokio::test]
async fn a_lease_is_renewed_while_the_stream_runs() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let asked = saying(&client, "say", Effect::Idempotent).lease(Duration::from_secs(3)).stream().await.unwrap();
    let StreamBegun::Open(stream) = asked else { panic!("it is new") };
    let id = hapax_core::Id::parse(&stream.outgoing().ticket.operation).unwrap();
    let first = daemon.engine.explain(&id).await.unwrap().version;
    let renewed = async {
        while daemon.engine.explain(&id).await.unwrap().version == first {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), renewed).await.expect("it was never renewed");
    assert!(!stream.end(200, 5, [1; 32]).await.unwrap().late);
}

/// Where the policy says so, a stream that does no harm may be called again for its body, with the key that its provider knows.
#[tokio::test]
async fn a_stream_may_be_called_again_for_its_body() {
    let policies =
        Policies::from_toml("[surface.activity]\npreset = \"activity\"\ncapture = { on_uncaptured = \"reinvoke\" }\n");
    let daemon = Setup { policies: policies.unwrap().0, ..Setup::default() }.start().await;
    let client = daemon.client();
    let stream = opened(&client, "say", Effect::Pure).await;
    let key = stream.outgoing().key.clone();
    stream.end(200, 5, [1; 32]).await.unwrap();
    let again = saying(&client, "say", Effect::Pure).stream().await.unwrap();
    assert!(matches!(&again, StreamBegun::Again(again) if again.key == key), "{again:?}");
}
