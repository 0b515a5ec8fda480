use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use hapax_core::{Effect, Millis};
use hapax_engine::{
    DeadLetter, DeadLetters, Engine, Guard, GuardConfig, HandlerError, InProgress, Message, NoProgress, Settle, Why,
};
use hapax_store::BoxFuture;
use parking_lot::Mutex;

use crate::support::{self, Mood, World, settle, soon};

/// Where dead letters go in these tests; it can be out of order.
#[derive(Default)]
struct Letters {
    kept: Mutex<Vec<DeadLetter>>,
    broken: std::sync::atomic::AtomicBool,
}

impl DeadLetters for Letters {
    fn put(&self, letter: DeadLetter) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            if self.broken.load(SeqCst) {
                return Err("no room".to_owned());
            }
            self.kept.lock().push(letter);
            Ok(())
        })
    }
}

fn config() -> GuardConfig {
    GuardConfig {
        consumer: "billing".into(),
        ack_wait: Duration::from_secs(30),
        max_deliveries: Some(5),
        back_offs: vec![Duration::from_secs(1), Duration::from_secs(10)],
        retention: None,
        effect: Effect::Unsafe,
    }
}

fn guard(engine: &Engine, letters: &Arc<Letters>) -> Guard {
    Guard::new(engine, "acme", config(), Arc::clone(letters) as Arc<dyn DeadLetters>).unwrap()
}

fn message(sequence: u64, delivery: u32) -> Message {
    Message { stream: "orders".into(), sequence, intent: None, payload: "{}".into(), delivery }
}

async fn handle(guard: &Guard, message: Message, result: Result<(), HandlerError>) -> Settle {
    soon(guard.handle(message, Arc::new(NoProgress), move |_| async move { result })).await
}

async fn never(guard: &Guard, message: Message) -> Settle {
    soon(guard.handle(message, Arc::new(NoProgress), |_| async { panic!("handled twice") })).await
}

/// One message delivered a hundred times in parallel to eight consumers in two processes: handled once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_deliveries_to_eight_consumers_are_handled_once() {
    let world = World::new();
    let letters = Arc::default();
    let guards: Vec<Guard> = (0..2).flat_map(|_| vec![guard(&world.engine(), &letters); 4]).collect();
    let handled = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let (guard, handled) = (guards[number % 8].clone(), Arc::clone(&handled));
            tokio::spawn(async move {
                loop {
                    let handled = Arc::clone(&handled);
                    let settled = guard.handle(message(1, 1), Arc::new(NoProgress), move |_| async move {
                        handled.fetch_add(1, SeqCst);
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        Ok(())
                    });
                    match settled.await {
                        Settle::Ack => return,
                        Settle::NakAfter(_) => tokio::time::sleep(Duration::from_millis(2)).await,
                        Settle::Terminate => panic!("terminated"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(handled.load(SeqCst), 1);
    assert!(letters.kept.lock().is_empty());
}

/// The store is away: the message rests two seconds and is handled once when the store is back.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_delays_a_message_and_loses_nothing() {
    let world = World::new();
    let guard = guard(&world.engine(), &Arc::default());
    world.store.mood(Mood::Down);
    assert_eq!(never(&guard, message(1, 1)).await, Settle::NakAfter(Duration::from_secs(2)));
    world.store.mood(Mood::Well);
    assert_eq!(handle(&guard, message(1, 2), Ok(())).await, Settle::Ack);
    assert_eq!(never(&guard, message(1, 3)).await, Settle::Ack);
}

/// The marker cannot be written: the message must not be acknowledged, or its only trace is gone.
#[tokio::test(start_paused = true)]
async fn the_marker_is_durable_before_the_message_is_acknowledged() {
    let world = World::new();
    let guard = guard(&world.engine(), &Arc::default());
    let store = Arc::clone(&world.store);
    let settled = guard.handle(message(1, 1), Arc::new(NoProgress), move |_| async move {
        store.mood(Mood::Down);
        Ok(())
    });
    assert_eq!(soon(settled).await, Settle::NakAfter(Duration::from_secs(2)));
    world.store.mood(Mood::Well);
    support::sleep(60_000).await;
    // Its outcome was offered again meanwhile.
    assert_eq!(never(&guard, message(1, 2)).await, Settle::Ack);
}

#[tokio::test(start_paused = true)]
async fn running_elsewhere_means_later_and_the_broker_hears_that_it_is_worked_on() {
    #[derive(Default)]
    struct Said(AtomicU32);
    impl InProgress for Said {
        fn say(&self) -> BoxFuture<'_, ()> {
            self.0.fetch_add(1, SeqCst);
            Box::pin(async {})
        }
    }
    let world = World::new();
    let guard = guard(&world.engine(), &Arc::default());
    let said = Arc::new(Said::default());
    let running = tokio::spawn({
        let (guard, said) = (guard.clone(), Arc::clone(&said));
        async move {
            let progress: Arc<dyn InProgress> = said;
            guard
                .handle(message(1, 1), progress, |_| async {
                    support::sleep(100_000).await;
                    Ok(())
                })
                .await
        }
    });
    settle().await;
    let Settle::NakAfter(rest) = never(&guard, message(1, 2)).await else { panic!("it runs elsewhere") };
    assert!(rest > Duration::from_secs(30) && rest <= Duration::from_secs(60), "{rest:?}");
    assert_eq!(soon(running).await.unwrap(), Settle::Ack);
    assert_eq!(said.0.load(SeqCst), 9, "every third of the 30 s that the broker waits");
}

/// The connection to the broker hangs while it is told that a message is worked on: the handler goes on to its end.
#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_listen_holds_no_handler_up() {
    struct Deaf;
    impl InProgress for Deaf {
        fn say(&self) -> BoxFuture<'_, ()> {
            Box::pin(std::future::pending())
        }
    }
    let world = World::new();
    let guard = guard(&world.engine(), &Arc::default());
    let handled = guard.handle(message(1, 1), Arc::new(Deaf), |_| async {
        support::sleep(100_000).await;
        Ok(())
    });
    assert_eq!(tokio::time::timeout(Duration::from_secs(200), handled).await, Ok(Settle::Ack));
}

#[tokio::test(start_paused = true)]
async fn every_way_to_fail_has_its_answer() {
    let world = World::new();
    let letters: Arc<Letters> = Arc::default();
    let guard = guard(&world.engine(), &letters);
    let busy = HandlerError::Retryable { delay: Duration::from_secs(7), why: "busy".into() };
    assert_eq!(handle(&guard, message(1, 1), Err(busy)).await, Settle::NakAfter(Duration::from_secs(7)));
    assert_eq!(handle(&guard, message(1, 2), Ok(())).await, Settle::Ack);

    assert_eq!(
        handle(&guard, message(2, 1), Err(HandlerError::Undecodable("no JSON".into()))).await,
        Settle::Terminate
    );
    assert_eq!(
        handle(&guard, message(3, 1), Err(HandlerError::Final("no such order".into()))).await,
        Settle::Terminate
    );
    // Its letter may not have been written when the process died: it is written again, and nothing runs.
    assert_eq!(never(&guard, message(3, 2)).await, Settle::Terminate);

    let intent =
        |payload: &'static str| Message { intent: Some("pay-7".into()), payload: payload.into(), ..message(4, 1) };
    assert_eq!(handle(&guard, intent("a"), Ok(())).await, Settle::Ack);
    assert_eq!(never(&guard, Message { sequence: 9, ..intent("a") }).await, Settle::Ack, "the same intent again");
    assert_eq!(never(&guard, intent("b")).await, Settle::Terminate, "another message under the same intent");
    assert_eq!(never(&guard, Message { intent: Some("a b".into()), ..message(5, 1) }).await, Settle::Terminate);

    let whys: Vec<Why> = letters.kept.lock().iter().map(|letter| letter.why.clone()).collect();
    assert!(
        matches!(&whys[..], [Why::Undecodable(_), Why::Failed(_), Why::Failed(_), Why::Mismatch, Why::Unusable(_)]),
        "{whys:?}"
    );
}

/// Nobody knows whether it was handled. It is delivered again while it may settle; at the last delivery a person is told
/// before the broker forgets it, and where that cannot be written down, the broker does not forget.
#[tokio::test(start_paused = true)]
async fn a_doubt_is_buried_before_the_last_delivery_is_forgotten() {
    let world = World::new();
    let letters: Arc<Letters> = Arc::default();
    let guard = guard(&world.engine(), &letters);
    let lost = handle(&guard, message(1, 1), Err(HandlerError::Unknown("no answer".into()))).await;
    assert_eq!(lost, Settle::NakAfter(Duration::from_secs(1)));
    assert_eq!(never(&guard, message(1, 2)).await, Settle::NakAfter(Duration::from_secs(10)));
    letters.broken.store(true, SeqCst);
    assert_eq!(never(&guard, message(1, 5)).await, Settle::NakAfter(Duration::from_secs(2)));
    letters.broken.store(false, SeqCst);
    assert_eq!(never(&guard, message(1, 5)).await, Settle::Terminate);
    assert_eq!(letters.kept.lock()[0].why, Why::InDoubt);
}

/// A marker that is forgotten while the broker may still deliver is no guard.
#[tokio::test(start_paused = true)]
async fn a_marker_outlives_every_delivery() {
    assert_eq!(config().kept().unwrap(), Millis::from_mins(10), "the least");
    let slow = GuardConfig { ack_wait: Duration::from_secs(300), ..config() };
    assert_eq!(slow.kept().unwrap(), Millis(1_500_000 + 11_000));
    let unlimited = GuardConfig { max_deliveries: None, ..config() };
    assert!(unlimited.kept().unwrap_err().to_string().contains("HX0097"));
    let given = GuardConfig { retention: Some(Millis::from_hours(2)), ..unlimited };
    assert_eq!(given.kept().unwrap(), Millis::from_hours(2));
    assert!(GuardConfig { retention: Some(Millis::ZERO), ..config() }.kept().is_err());
    assert!(GuardConfig { ack_wait: Duration::ZERO, ..config() }.kept().is_err());

    let world = World::new();
    let named = |bytes: usize| {
        let config = GuardConfig { consumer: "n".repeat(bytes), ..config() };
        Guard::new(&world.engine(), "acme", config, Arc::new(Letters::default()))
    };
    assert!(named(256).is_ok());
    assert!(named(257).unwrap_err().to_string().contains("at most 256 bytes"));
    let letters: Arc<Letters> = Arc::default();
    let guard = Guard::new(&world.engine(), "acme", slow, letters).unwrap();
    assert_eq!(handle(&guard, message(1, 1), Ok(())).await, Settle::Ack);
    world.clock.jump(1_510_000);
    assert_eq!(never(&guard, message(1, 5)).await, Settle::Ack);
}
