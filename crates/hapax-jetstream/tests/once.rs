//! Whatever the bus does, a message is handled once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use async_nats::jetstream::{AckKind, consumer::PullConsumer, message::PublishMessage};
use common::{Letters, Seen, bus, consumer, engine, eventually, filtered, next, orders};
use hapax_core::Effect;
use hapax_engine::{HandlerError, Settle, Why};
use hapax_jetstream::{DeadLetterSubject, Guarded, Options, SetupError};
use hapax_testkit::{
    Nats,
    children::{self, Crew, say},
};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinSet};

const COPIES: usize = 100;
const CONSUMERS: usize = 4;

/// Not a test of its own: one of two processes, with four consumers on everything there is.
#[tokio::test]
async fn child() {
    let Some(task) = children::task() else { return };
    let (process, port) = task.split_once(' ').unwrap();
    let port = port.parse().unwrap();
    let (bus, engine) = (bus(port).await, engine(port).await);
    let orders = orders(&bus).await;
    let all = COPIES + 1;
    let mut running = Vec::new();
    for number in 0..CONSUMERS {
        let (seen, stop) = (Seen::default(), Arc::new(Notify::new()));
        let consumer = consumer(&orders, &format!("mailer-{process}-{number}")).await;
        // All eight are one to the guard: what one of them has handled, none handles again.
        let options = seen.options(Effect::Irreversible).name("mailer").intent_header(Some("Hapax-Intent".into()));
        let guarded = Guarded::new(&engine, "acme", consumer, Arc::new(Letters::default()), options).unwrap();
        running.push(tokio::spawn(async move {
            let handler = |message: hapax_engine::Message| async move {
                say(&format!("handled {}", String::from_utf8_lossy(&message.payload)));
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok(())
            };
            let end = {
                let (seen, stop) = (seen.clone(), Arc::clone(&stop));
                async move {
                    let done = || {
                        let seen = seen.0.lock();
                        let acked = seen.iter().filter(|(_, settle)| *settle == Settle::Ack);
                        acked.map(|(message, _)| message.sequence).collect::<BTreeSet<_>>().len() == all
                    };
                    eventually("every message is acknowledged", done).await;
                    drop(stop);
                }
            };
            guarded.run(2 * COPIES, handler, end).await;
            let ends: BTreeSet<String> = seen.0.lock().iter().map(|(_, settle)| format!("{settle:?}")).collect();
            assert!(!ends.contains("Terminate"), "nothing is put aside: {ends:?}");
            say(&format!("settled {}", seen.0.lock().len()));
        }));
    }
    for one in running {
        one.await.unwrap();
    }
}

/// A producer says one thing a hundred times, and once another without an intent; eight consumers in two processes are
/// delivered all of it at once. Each thing happens once.
#[tokio::test]
async fn a_hundred_parallel_deliveries_to_eight_consumers_are_handled_once() {
    let nats = Nats::start();
    let bus = bus(nats.port()).await;
    orders(&bus).await;
    for _ in 0..COPIES {
        let said = PublishMessage::build().payload("one".into()).header("Hapax-Intent", "order-17");
        bus.send_publish("orders.new", said).await.unwrap().await.unwrap();
    }
    bus.publish("orders.new", "other".into()).await.unwrap().await.unwrap();
    let tasks = (0..2).map(|process| format!("{process} {}", nats.port()));
    let crew = Crew::start("child", tasks);
    let said: Vec<String> =
        tokio::task::spawn_blocking(move || crew.finish()).await.unwrap().into_iter().flatten().collect();
    let mut handled: Vec<&str> = said.iter().filter_map(|line| line.strip_prefix("handled ")).collect();
    handled.sort_unstable();
    assert_eq!(handled, ["one", "other"], "each once");
    let deliveries: usize = said.iter().filter_map(|line| line.strip_prefix("settled ")?.parse::<usize>().ok()).sum();
    assert!(deliveries >= 2 * CONSUMERS * (COPIES + 1), "all eight were delivered all of it: {deliveries}");
}

/// How often each of the eight is delivered the one message before anybody handles it: a hundred and four together.
const EACH: usize = 13;

/// Not a test of its own: one of two processes, with four consumers that take one message into their hands again and again.
#[tokio::test]
async fn child_of_one_message() {
    let Some(task) = children::task() else { return };
    let (process, port) = task.split_once(' ').unwrap();
    let port = port.parse().unwrap();
    let (bus, engine) = (bus(port).await, engine(port).await);
    let mut orders = orders(&bus).await;
    let mut hands = Vec::new();
    for number in 0..CONSUMERS {
        let consumer = filtered(&orders, &format!("mailer-{process}-{number}"), "orders.new").await;
        let mut held = Vec::new();
        while held.len() < EACH {
            let mut batch = consumer.fetch().max_messages(1).expires(Duration::from_secs(5)).messages().await.unwrap();
            while let Some(delivery) = next(&mut batch).await {
                let delivery = delivery.unwrap();
                // Given back and kept: the server delivers it again while it is still in our hands.
                delivery.ack_with(AckKind::Nak(None)).await.unwrap();
                held.push(delivery);
            }
        }
        hands.push((consumer, held));
    }
    // Nobody handles anything before everybody has everything.
    bus.publish("orders.ready", "".into()).await.unwrap().await.unwrap();
    while orders.info().await.unwrap().state.messages < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut running = Vec::new();
    for (consumer, held) in hands {
        let seen = Seen::default();
        let options = seen.options(Effect::Irreversible).name("mailer");
        let guarded = Guarded::new(&engine, "acme", consumer, Arc::new(Letters::default()), options).unwrap();
        let handler = |message: hapax_engine::Message| async move {
            say(&format!("handled {} {}", message.sequence, String::from_utf8_lossy(&message.payload)));
            tokio::time::sleep(Duration::from_millis(200)).await;
            Ok(())
        };
        running.push(tokio::spawn(async move {
            let mut storm = JoinSet::new();
            for delivery in held {
                let guarded = guarded.clone();
                storm.spawn(async move { guarded.handle(delivery, handler).await });
            }
            while let Some(settle) = storm.join_next().await {
                assert_ne!(settle.unwrap(), Settle::Terminate, "nothing is put aside");
            }
            // Whoever was told to come back does, until it is acknowledged.
            let acknowledged = || seen.any(|settle| *settle == Settle::Ack);
            guarded.run(4, handler, eventually("it is acknowledged", acknowledged)).await;
            let seen = seen.0.lock();
            let (one, deliveries) = seen.iter().fold((true, BTreeSet::new()), |(one, mut counts), (message, _)| {
                counts.insert(message.delivery);
                (one && message.sequence == 1, counts)
            });
            assert!(one && deliveries.len() >= EACH, "one message, delivered anew each time: {deliveries:?}");
            say(&format!("settled {}", seen.len()));
        }));
    }
    for one in running {
        one.await.unwrap();
    }
}

/// One message, and only one, with an id of its own; the server delivers it a hundred and four times to eight consumers in
/// two processes, which all have it in their hands before the first of them asks. It is handled once.
#[tokio::test]
async fn one_message_delivered_a_hundred_times_to_eight_consumers_is_handled_once() {
    let nats = Nats::start();
    let bus = bus(nats.port()).await;
    let mut orders = orders(&bus).await;
    let said = PublishMessage::build().payload("one".into()).message_id("order-17");
    let stored = bus.send_publish("orders.new", said).await.unwrap().await.unwrap();
    assert_eq!(stored.sequence, 1);
    let tasks = (0..2).map(|process| format!("{process} {}", nats.port()));
    let crew = Crew::start("child_of_one_message", tasks);
    let said: Vec<String> =
        tokio::task::spawn_blocking(move || crew.finish()).await.unwrap().into_iter().flatten().collect();
    let handled: Vec<&str> = said.iter().filter_map(|line| line.strip_prefix("handled ")).collect();
    assert_eq!(handled, ["1 one"], "once");
    let asked: usize = said.iter().filter_map(|line| line.strip_prefix("settled ")?.parse::<usize>().ok()).sum();
    assert!(asked >= 2 * CONSUMERS * EACH, "the guard was asked each time: {asked}");
    // The server's own word for it: one message, a hundred deliveries, and nobody waits for it any more.
    assert_eq!(orders.info().await.unwrap().state.messages, 3, "it and the two signs to begin");
    let mut delivered = 0;
    for (process, number) in (0..2).flat_map(|process| (0..CONSUMERS).map(move |number| (process, number))) {
        let name = format!("mailer-{process}-{number}");
        let mut consumer: PullConsumer = orders.get_consumer(&name).await.unwrap();
        let info = consumer.info().await.unwrap();
        delivered += info.delivered.consumer_sequence;
        assert_eq!((info.num_ack_pending, info.num_pending), (0, 0), "{name}");
    }
    assert!(delivered >= 100, "{delivered}");
}

/// The store is down when the message comes. It rests for two seconds, is delivered again, and is handled once.
#[tokio::test]
async fn with_the_store_down_a_message_rests_and_is_then_handled_once() {
    let (nats, mut store) = (Nats::start(), Nats::start());
    let (bus, engine) = (bus(nats.port()).await, engine(store.port()).await);
    let (orders, seen, letters) = (orders(&bus).await, Seen::default(), Arc::new(Letters::default()));
    let consumer = consumer(&orders, "mailer").await;
    let guarded = Guarded::new(&engine, "acme", consumer, letters.clone(), seen.options(Effect::Irreversible)).unwrap();
    store.kill();
    bus.publish("orders.new", "one".into()).await.unwrap().await.unwrap();
    let handled: Arc<Mutex<Vec<u32>>> = Arc::default();
    let running = tokio::spawn({
        let (guarded, seen, handled) = (guarded.clone(), seen.clone(), handled.clone());
        let handler = move |message: hapax_engine::Message| {
            handled.lock().push(message.delivery);
            async { Ok(()) }
        };
        let end = async move { eventually("it is acknowledged", || seen.any(|settle| *settle == Settle::Ack)).await };
        async move { guarded.run(4, handler, end).await }
    });
    let rested = |settle: &Settle| *settle == Settle::NakAfter(Duration::from_secs(2));
    eventually("it is put off for two seconds", || seen.any(rested)).await;
    assert!(handled.lock().is_empty(), "nobody may handle what cannot be recorded");
    store.restart();
    running.await.unwrap();
    let handled = handled.lock().clone();
    assert!(matches!(handled[..], [delivery] if delivery >= 2), "once, at a later delivery: {handled:?}");
    assert!(letters.0.lock().is_empty());
}

/// A handler takes more than twice as long as the server waits for an acknowledgement. It says that it is still at it, so the
/// server delivers nothing a second time.
#[tokio::test]
async fn a_handler_that_takes_longer_than_the_server_waits_is_delivered_its_message_once() {
    let nats = Nats::start();
    let (bus, engine) = (bus(nats.port()).await, engine(nats.port()).await);
    let (orders, seen) = (orders(&bus).await, Seen::default());
    let config = async_nats::jetstream::consumer::pull::Config {
        durable_name: Some("mailer".into()),
        ack_wait: Duration::from_secs(4),
        max_deliver: 5,
        ..Default::default()
    };
    let mut consumer = orders.get_or_create_consumer("mailer", config).await.unwrap();
    let options = seen.options(Effect::Irreversible);
    let guarded = Guarded::new(&engine, "acme", consumer.clone(), Arc::new(Letters::default()), options).unwrap();
    bus.publish("orders.new", "one".into()).await.unwrap().await.unwrap();
    let handled = Arc::new(AtomicU64::new(0));
    let end = {
        let seen = seen.clone();
        async move { eventually("it is acknowledged", || seen.any(|settle| *settle == Settle::Ack)).await }
    };
    let counted = Arc::clone(&handled);
    let handler = move |_| {
        counted.fetch_add(1, SeqCst);
        async {
            // The server's time cannot be moved, so this one is waited for.
            tokio::time::sleep(Duration::from_secs(9)).await;
            Ok(())
        }
    };
    guarded.run(4, handler, end).await;
    assert_eq!(handled.load(SeqCst), 1);
    let settled: Vec<u32> = seen.0.lock().iter().map(|(message, _)| message.delivery).collect();
    assert_eq!(settled, [1], "delivered once");
    let info = consumer.info().await.unwrap();
    assert_eq!((info.delivered.consumer_sequence, info.num_redelivered), (1, 0), "the server says so, too");
}

/// The handler is done, and its outcome cannot be recorded. Whoever acknowledged now would lose the message if the process
/// ended; whoever handled it again would do it twice.
#[tokio::test]
async fn nothing_is_acknowledged_before_its_outcome_is_recorded() {
    let (nats, store) = (Nats::start(), Arc::new(Nats::start()));
    let (bus, engine) = (bus(nats.port()).await, engine(store.port()).await);
    let (orders, seen) = (orders(&bus).await, Seen::default());
    let mut consumer = consumer(&orders, "mailer").await;
    let options = seen.options(Effect::Irreversible);
    let letters = Arc::new(Letters::default());
    let guarded = Guarded::new(&engine, "acme", consumer.clone(), letters.clone(), options).unwrap();
    bus.publish("orders.new", "one".into()).await.unwrap().await.unwrap();
    let handled = Arc::new(AtomicU64::new(0));
    let running = tokio::spawn({
        let (guarded, seen, handled, store) = (guarded.clone(), seen.clone(), handled.clone(), store.clone());
        let handler = move |_| {
            handled.fetch_add(1, SeqCst);
            store.pause();
            async { Ok(()) }
        };
        let ended = |settle: &Settle| matches!(settle, Settle::Ack | Settle::Terminate);
        let end = async move { eventually("it is settled", || seen.any(ended)).await };
        async move { guarded.run(1, handler, end).await }
    });
    eventually("it is settled for now", || !seen.0.lock().is_empty()).await;
    let first = seen.0.lock()[0].1;
    assert!(matches!(first, Settle::NakAfter(_)), "not recorded, so not acknowledged: {first:?}");
    let info = consumer.info().await.unwrap();
    assert_eq!((info.ack_floor.stream_sequence, info.num_ack_pending), (0, 1), "the server still has it");
    store.resume();
    running.await.unwrap();
    assert_eq!(handled.load(SeqCst), 1, "and it is never handled again");
    let doubts = letters.0.lock().iter().all(|letter| letter.why == Why::InDoubt);
    assert!(doubts, "what nobody can know is for a person: {:?}", letters.0.lock());
}

/// What cannot be read, and what fails for good, is put aside where a person finds it, and not delivered for ever.
#[tokio::test]
async fn what_can_never_be_handled_becomes_a_dead_letter() {
    let nats = Nats::start();
    let (bus, engine) = (bus(nats.port()).await, engine(nats.port()).await);
    let (orders, seen) = (orders(&bus).await, Seen::default());
    let consumer = consumer(&orders, "mailer").await;
    let letters = DeadLetterSubject::new(bus.clone(), "orders.dead.mailer");
    let options = seen.options(Effect::Irreversible).intent_header(Some("Hapax-Intent".into()));
    let guarded = Guarded::new(&engine, "acme", consumer, Arc::new(letters), options).unwrap();
    let say = async |text: &'static str, intent: &'static str| {
        let message = PublishMessage::build().payload(text.into()).header("Hapax-Intent", intent);
        bus.send_publish("orders.new", message).await.unwrap().await.unwrap();
    };
    say("garbled", "a").await;
    say("impossible", "b").await;
    say("fine", "c").await;
    say("other words under the same intent", "c").await;
    let handler = |message: hapax_engine::Message| async move {
        match message.payload.as_ref() {
            b"garbled" => Err(HandlerError::Undecodable("not a date:\r\nnever".into())),
            b"impossible" => Err(HandlerError::Final("no such customer".into())),
            // The dead letters come by here too, as messages of their own.
            _ => Ok(()),
        }
    };
    let ends = |wanted: Settle| seen.0.lock().iter().filter(|(_, settle)| *settle == wanted).count();
    let end = eventually("all seven are settled", || ends(Settle::Terminate) >= 3 && ends(Settle::Ack) >= 2);
    // One at a time: the fourth must find the third done.
    guarded.run(1, handler, end).await;
    let mut whys = Vec::new();
    for sequence in 1..100 {
        let Ok(held) = orders.get_raw_message(sequence).await else { break };
        whys.extend(held.headers.get("Hapax-Why").map(|why| why.as_str().to_owned()));
    }
    let wanted = ["cannot be read: not a date:  never", "no such customer", "used for another message"];
    for want in wanted {
        assert!(whys.iter().any(|why| why.contains(want)), "{want}: {whys:?}");
    }
}

/// A consumer that acknowledges nothing, or everything up to a message, cannot give single ones back.
#[tokio::test]
async fn a_consumer_that_cannot_be_guarded_is_refused_by_name() {
    let nats = Nats::start();
    let (bus, engine) = (bus(nats.port()).await, engine(nats.port()).await);
    let orders = orders(&bus).await;
    let ack_policy = async_nats::jetstream::consumer::AckPolicy::None;
    let config = async_nats::jetstream::consumer::pull::Config {
        durable_name: Some("lax".into()),
        ack_policy,
        ..Default::default()
    };
    let lax = orders.get_or_create_consumer("lax", config).await.unwrap();
    let letters = Arc::new(Letters::default());
    let refused = Guarded::new(&engine, "acme", lax, letters.clone(), Options::new(Effect::Pure));
    let error = refused.err().unwrap();
    assert!(matches!(error, SetupError::NotAcknowledged { .. }), "{error}");
    assert!(error.to_string().contains("ORDERS/lax") && error.to_string().contains("HX0102"), "{error}");
    let endless =
        async_nats::jetstream::consumer::pull::Config { durable_name: Some("endless".into()), ..Default::default() };
    let endless = orders.get_or_create_consumer("endless", endless).await.unwrap();
    let refused = Guarded::new(&engine, "acme", endless.clone(), letters.clone(), Options::new(Effect::Pure));
    assert!(refused.err().unwrap().to_string().contains("retention"), "unlimited deliveries need one");
    let options = Options::new(Effect::Pure).retention(hapax_core::Millis::from_hours(1));
    assert!(Guarded::new(&engine, "acme", endless, letters, options).is_ok());
}
