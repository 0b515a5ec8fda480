#![allow(dead_code, unreachable_pub, reason = "each test uses its own part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::{pin::Pin, sync::Arc, time::Duration};

use async_nats::jetstream::{
    self,
    consumer::{PullConsumer, pull},
    stream,
};
use futures_core::Stream as _;
use hapax_core::{Effect, Millis, Policy, Preset};
use hapax_engine::{DeadLetter, DeadLetters, Engine, Message, Settings, Settle};
use hapax_jetstream::Options;
use hapax_nats::NatsStore;
use hapax_store::BoxFuture;
use parking_lot::Mutex;

pub async fn bus(port: u16) -> jetstream::Context {
    jetstream::new(async_nats::connect(format!("nats://127.0.0.1:{port}")).await.unwrap())
}

pub async fn orders(bus: &jetstream::Context) -> stream::Stream {
    let subjects = vec!["orders.>".into()];
    bus.get_or_create_stream(stream::Config { name: "ORDERS".into(), subjects, ..Default::default() }).await.unwrap()
}

pub async fn consumer(orders: &stream::Stream, name: &str) -> PullConsumer {
    filtered(orders, name, "orders.>").await
}

/// Of one subject only.
pub async fn filtered(orders: &stream::Stream, name: &str, subject: &str) -> PullConsumer {
    let config = pull::Config {
        durable_name: Some(name.into()),
        filter_subject: subject.into(),
        ack_wait: Duration::from_secs(60),
        max_deliver: 500,
        ..Default::default()
    };
    orders.get_or_create_consumer(name, config).await.unwrap()
}

/// The next of what was pulled.
pub async fn next(batch: &mut pull::Batch) -> Option<Result<jetstream::Message, async_nats::Error>> {
    std::future::poll_fn(|context| Pin::new(&mut *batch).poll_next(context)).await
}

/// An engine whose store may stay away, with leases that a test can wait for.
pub async fn engine(store_port: u16) -> Engine {
    let options = hapax_nats::Options::new(format!("nats://127.0.0.1:{store_port}"));
    let options = options.answer_timeout(Duration::from_millis(800)).connect_timeout(Duration::from_millis(800));
    let mut store = NatsStore::open_with(options.clone()).await;
    for _ in 0..20 {
        if store.is_err() {
            store = NatsStore::open_with(options.clone()).await;
        }
    }
    // These messages may be forgotten by a server that loses its power.
    let policy = Policy { lease: Millis::from_secs(2), best_effort: [true; 5], ..Preset::Bus.policy() };
    let settings = Settings { store_timeout: Duration::from_secs(1), store_retries: 1, ..Settings::default() };
    Engine::builder(Arc::new(store.unwrap())).policy("bus", policy).settings(settings).build().unwrap()
}

/// Everything that became of deliveries.
#[derive(Clone, Default)]
pub struct Seen(pub Arc<Mutex<Vec<(Message, Settle)>>>);

impl Seen {
    pub fn options(&self, effect: Effect) -> Options {
        let seen = self.clone();
        Options::new(effect).observe(move |message, settle| seen.0.lock().push((message.clone(), settle)))
    }

    pub fn any(&self, wanted: impl Fn(&Settle) -> bool) -> bool {
        self.0.lock().iter().any(|(_, settle)| wanted(settle))
    }
}

#[derive(Default)]
pub struct Letters(pub Mutex<Vec<DeadLetter>>);

impl DeadLetters for Letters {
    fn put(&self, letter: DeadLetter) -> BoxFuture<'_, Result<(), String>> {
        self.0.lock().push(letter);
        Box::pin(async { Ok(()) })
    }
}

pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within two minutes: {what}");
}
