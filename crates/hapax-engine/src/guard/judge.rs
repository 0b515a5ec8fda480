//! The guard's judgement without its hands: for handlers that run in another process.

use std::{sync::Arc, time::Duration};

use hapax_core::{
    Id, Nonce, Outcome, Policy, Span, Token,
    identity::{Grammar, Key, Surface, Tenant, recipes::native},
    policy::Treatment,
};

use super::{GuardConfig, GuardError, HandlerError, Judged, Message, Why};
use crate::{
    call::{Call, IntoTenant, Wait},
    engine::Engine,
    error::{EngineError, OnceError},
    once::{OnceDone, told_instead},
    recorded::{done_as, recorded_failure},
    steps::Stepped,
    ticket::Ticket,
};

/// Judges the deliveries of one consumer.
#[derive(Clone, Debug)]
pub struct Judge {
    engine: Engine,
    tenant: Tenant,
    config: Arc<GuardConfig>,
    policy: Arc<Policy>,
}

/// What a delivery comes to before its handler runs.
#[derive(Debug)]
#[must_use]
pub enum Admitted {
    /// Nobody has handled it: run the handler, renew the ticket, then say how it ended.
    Run(Box<Ticket>),
    Judged(Judged),
}

impl Judge {
    pub fn new(engine: &Engine, tenant: impl IntoTenant, config: GuardConfig) -> Result<Self, GuardError> {
        let kept = Span::For(config.kept()?);
        let tenant = tenant.into_tenant()?;
        // Here, where whoever sets it up sees it: message by message, each would be put aside for it.
        let (len, most) = (config.consumer.len(), Tenant::MOST_BYTES);
        if len > most {
            return Err(GuardError::LongName { len, most });
        }
        let surface = Surface::new("bus").map_err(EngineError::from)?;
        let policy = Policy::clone(&engine.inner.policy(&surface));
        let policy = Policy { success: kept, final_failure: Treatment::Replay(kept), ..policy }.revised();
        Ok(Self { engine: engine.clone(), tenant, config: Arc::new(config), policy: Arc::new(policy) })
    }

    pub(super) fn config(&self) -> &GuardConfig {
        &self.config
    }

    pub(super) fn consumer(&self) -> &str {
        &self.config.consumer
    }

    /// How often the broker is to be told that a message is being worked on.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.config.ack_wait / 3
    }

    /// The operation behind a delivery: known by its intent, or else by its place in its stream.
    pub fn call(&self, message: &Message) -> Result<Call, EngineError> {
        let key = match &message.intent {
            Some(intent) => Key::new(intent, &Grammar::visible())?,
            None => {
                let sequence = message.sequence.to_le_bytes();
                native::named("bus", 1, &[("stream", message.stream.as_bytes()), ("sequence", &sequence)])
            }
        };
        let print = self.engine.inner.printer.of_bytes(&message.payload);
        let policy = Arc::clone(&self.policy);
        let scope = self.engine.surface("bus").tenant(&self.tenant).within("consumer", &self.config.consumer);
        let call = scope.with_key(key).fingerprinted(print).effect(self.config.effect).wait(Wait::No);
        Ok(call.set(move |prepared| prepared.policy = policy))
    }

    /// Asks for the right to handle a delivery. With the same nonce again: the same answer.
    pub async fn admit(&self, message: &Message, nonce: Option<Nonce>) -> Admitted {
        let named = self.call(message).and_then(|call| Ok((call.id()?, call)));
        let (id, call) = match named {
            Ok(named) => named,
            Err(error) => return Admitted::Judged(Judged::Bury(Why::Unusable(error.to_string()))),
        };
        let begun = match nonce {
            Some(nonce) => call.begin_with(nonce).await,
            None => call.begin().await,
        };
        let done = match begun {
            Ok(crate::begin::Begun::Execute(ticket)) => return Admitted::Run(Box::new(ticket)),
            Ok(told) => told_instead(id, told),
            Err(error) => Err(OnceError::Engine(error)),
        };
        Admitted::Judged(self.judged(message.delivery, done))
    }

    /// What is recorded of how a handler ended.
    pub fn outcome_of(&self, handled: &Result<(), HandlerError>) -> Outcome {
        match handled {
            Ok(()) => done_as(&self.policy, &()),
            Err(error) => recorded_failure(error),
        }
    }

    /// Records how a handler ended for a process that holds its token and no ticket: kept as long as the broker may
    /// deliver the message again, like what is recorded with one.
    pub async fn finish(&self, id: &Id, token: Token, outcome: Outcome) -> Result<Stepped, EngineError> {
        self.engine.finish_under(&self.policy, id, token, outcome).await
    }

    /// What comes of a delivery whose handler ended so, once that was recorded or refused.
    pub fn close(
        &self,
        delivery: u32,
        attempt: u32,
        handled: Result<(), HandlerError>,
        recorded: Result<Stepped, EngineError>,
    ) -> Judged {
        let done = match (recorded, handled) {
            (Ok(Stepped::Done(_)), Ok(())) => {
                Ok(OnceDone { value: (), replayed: false, joined: false, attempt, unrecorded: false })
            }
            (Ok(Stepped::Done(_)), Err(error)) => Err(OnceError::Failed(error)),
            (Ok(Stepped::Fenced | Stepped::Conflict(_) | Stepped::Refused(_)), _) => Err(OnceError::Overtaken),
            (Err(error), _) => Err(OnceError::NotRecorded(error)),
        };
        self.judged(delivery, done)
    }
}
