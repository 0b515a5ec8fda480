//! Messages that are delivered more than once, between a bus and a store.

use std::time::Duration;

use hapax_core::Effect;
use hapax_engine::{
    DeadLetter, DeadLetters, Engine, Guard, GuardConfig, HandlerError, Message, NoProgress, Settle, Why,
};
use hapax_store::BoxFuture;
use parking_lot::Mutex;

use super::*;

#[derive(Default)]
struct Letters(Mutex<Vec<DeadLetter>>);

impl DeadLetters for Letters {
    fn put(&self, letter: DeadLetter) -> BoxFuture<'_, Result<(), String>> {
        self.0.lock().push(letter);
        Box::pin(async { Ok(()) })
    }
}

fn guard(engine: &Engine, letters: &Arc<Letters>) -> Guard {
    let config = GuardConfig {
        consumer: "billing".into(),
        ack_wait: Duration::from_secs(30),
        max_deliveries: Some(5),
        back_offs: vec![Duration::from_secs(1), Duration::from_secs(10)],
        retention: None,
        effect: Effect::Unsafe,
    };
    Guard::new(engine, "acme", config, Arc::clone(letters) as Arc<dyn DeadLetters>).unwrap()
}

fn message(sequence: u64, delivery: u32) -> Message {
    Message { stream: "orders".into(), sequence, intent: None, payload: "{}".into(), delivery }
}

async fn handle(guard: &Guard, message: Message, result: Result<(), HandlerError>) -> Settle {
    soon(guard.handle(message, Arc::new(NoProgress), move |_| async move { result })).await
}

async fn never(guard: &Guard, message: Message) -> Settle {
    soon(guard.handle(message, Arc::new(NoProgress), |_| async { panic!("it was handled again") })).await
}

/// A message is delivered again after its consumer was restarted: it is acknowledged and not handled. Another one is.
pub async fn a_message_that_was_handled_is_not_handled_by_the_next_consumer(stage: &Stage) {
    let world = stage.world().await;
    let letters: Arc<Letters> = Arc::default();
    assert_eq!(handle(&guard(&world.engine(), &letters), message(1, 1), Ok(())).await, Settle::Ack);
    let restarted = guard(&world.engine(), &letters);
    assert_eq!(never(&restarted, message(1, 2)).await, Settle::Ack);
    assert_eq!(handle(&restarted, message(2, 1), Ok(())).await, Settle::Ack);
    // It comes later than it may come at all: it is a new one then.
    world.jump(3_600_000).await;
    assert_eq!(handle(&restarted, message(1, 3), Ok(())).await, Settle::Ack);
    assert!(letters.0.lock().is_empty());
}

/// A handler that is too busy is asked again after its own delay, and one whose work is in doubt is not: a person hears of
/// the message before the bus forgets it.
pub async fn a_doubtful_message_ends_with_a_person(stage: &Stage) {
    let world = stage.world().await;
    let (engine, letters) = (world.engine(), Arc::<Letters>::default());
    let guard = guard(&engine, &letters);
    let delay = Duration::from_secs(7);
    let busy = Err(HandlerError::Retryable { why: "busy".into(), delay });
    assert_eq!(handle(&guard, message(1, 1), busy).await, Settle::NakAfter(delay));
    let lost = Err(HandlerError::Unknown("the connection was cut".into()));
    assert!(matches!(handle(&guard, message(1, 2), lost).await, Settle::NakAfter(_)));
    assert!(matches!(never(&guard, message(1, 3)).await, Settle::NakAfter(_)));
    assert!(letters.0.lock().is_empty());
    assert_eq!(never(&guard, message(1, 5)).await, Settle::Terminate);
    let whys: Vec<Why> = letters.0.lock().iter().map(|letter| letter.why.clone()).collect();
    assert_eq!(whys, [Why::InDoubt]);
}
