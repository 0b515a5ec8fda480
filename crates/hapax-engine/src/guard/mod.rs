//! The bus guard: at-least-once in, once handled. It knows no broker; an adapter hands it messages and carries out what
//! it answers.

mod judge;
mod letter;
mod settle;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::{Effect, Millis};
use hapax_store::BoxFuture;

use crate::{
    call::IntoTenant,
    classify::{Classify, Failure},
    engine::Engine,
    error::EngineError,
};

pub use judge::{Admitted, Judge};
pub use letter::{DeadLetter, DeadLetters, Why};
pub use settle::{Judged, Settle};

/// One delivery of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub stream: String,
    pub sequence: u64,
    /// What its sender calls the intent behind it, if it does: the same over several messages.
    pub intent: Option<String>,
    pub payload: Bytes,
    /// 1 for the first delivery.
    pub delivery: u32,
}

/// Tells the broker that a message is still being worked on.
pub trait InProgress: Send + Sync {
    fn say(&self) -> BoxFuture<'_, ()>;
}

/// For brokers that need no such word.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl InProgress for NoProgress {
    fn say(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// How a handler failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandlerError {
    /// Nothing lasting happened; deliver it again after this.
    #[error("{why}")]
    Retryable { delay: Duration, why: String },
    /// It would fail again.
    #[error("{0}")]
    Final(String),
    /// The message cannot be read.
    #[error("{0}")]
    Undecodable(String),
    /// It may have happened.
    #[error("{0}")]
    Unknown(String),
}

impl Classify for HandlerError {
    fn classify(&self) -> Failure {
        match self {
            Self::Retryable { .. } => Failure::Retryable,
            Self::Final(_) => Failure::Final,
            Self::Undecodable(_) => Failure::NoEffect,
            Self::Unknown(_) => Failure::Unknown,
        }
    }
}

/// How the consumer is set up at the broker: what the guard's memory has to outlast.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuardConfig {
    pub consumer: String,
    pub ack_wait: Duration,
    /// `None`: unlimited; then `retention` has to be given.
    pub max_deliveries: Option<u32>,
    pub back_offs: Vec<Duration>,
    pub retention: Option<Millis>,
    /// What is known about handling a message twice.
    pub effect: Effect,
}

#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    #[error(
        "consumer `{consumer}` is delivered to without limit, so nobody knows how long to remember; give a retention [HX0097]"
    )]
    Unlimited { consumer: String },
    #[error("consumer `{consumer}` has a {what} of zero, which means nothing; give it a length [HX0097]")]
    Zero { consumer: String, what: &'static str },
    #[error("the name of a consumer has at most {most} bytes, and this one has {len} [HX0097]")]
    LongName { len: usize, most: usize },
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The least that a marker is kept.
const LEAST: Millis = Millis::from_mins(10);

impl GuardConfig {
    /// How long a marker is kept: as long as the broker may deliver the message again.
    pub fn kept(&self) -> Result<Millis, GuardError> {
        let consumer = || self.consumer.clone();
        if self.ack_wait.is_zero() {
            return Err(GuardError::Zero { consumer: consumer(), what: "ack_wait" });
        }
        if let Some(given) = self.retention {
            return if given == Millis::ZERO {
                Err(GuardError::Zero { consumer: consumer(), what: "retention" })
            } else {
                Ok(given)
            };
        }
        let deliveries = self.max_deliveries.ok_or_else(|| GuardError::Unlimited { consumer: consumer() })?;
        let back_offs: Duration = self.back_offs.iter().sum();
        let all = Millis::from_std(self.ack_wait.saturating_mul(deliveries).saturating_add(back_offs));
        Ok(all.max(LEAST))
    }
}

/// Guards one consumer.
#[derive(Clone)]
pub struct Guard {
    judge: Judge,
    letters: Arc<dyn DeadLetters>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("judge", &self.judge).finish_non_exhaustive()
    }
}

impl Guard {
    pub fn new(
        engine: &Engine,
        tenant: impl IntoTenant,
        config: GuardConfig,
        letters: Arc<dyn DeadLetters>,
    ) -> Result<Self, GuardError> {
        Ok(Self { judge: Judge::new(engine, tenant, config)?, letters })
    }

    /// Handles one delivery: runs the handler unless the message was handled before, and says what to tell the broker.
    /// What is to be acknowledged is durable by then.
    pub async fn handle<F, Fut>(&self, message: Message, progress: Arc<dyn InProgress>, handler: F) -> Settle
    where
        F: FnOnce(Message) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let call = match self.judge.call(&message) {
            Ok(call) => call,
            Err(error) => return self.bury(&message, Why::Unusable(error.to_string())).await,
        };
        let (every, given) = (self.judge.every(), message.clone());
        let done = call
            .once(move |_ticket| async move {
                let mut handling = std::pin::pin!(handler(given));
                loop {
                    tokio::select! {
                        biased;
                        handled = handling.as_mut() => return handled,
                        // A broker that does not take the word must not keep the handler from its work either.
                        () = say_in_a_while(&*progress, every) => {}
                    }
                }
            })
            .await;
        match self.judge.judged(message.delivery, done) {
            Judged::Tell(settle) => settle,
            Judged::Bury(why) => self.bury(&message, why).await,
        }
    }

    /// The dead letter is durable before the broker is told to forget the message.
    async fn bury(&self, message: &Message, why: Why) -> Settle {
        let letter = DeadLetter { consumer: self.judge.consumer().to_owned(), message: message.clone(), why };
        match self.letters.put(letter).await {
            Ok(()) => Settle::Terminate,
            Err(_) => settle::STORE_AWAY,
        }
    }
}

/// Says that it is under way, once the time has come.
async fn say_in_a_while(progress: &dyn InProgress, every: Duration) {
    tokio::time::sleep(every).await;
    progress.say().await;
}
