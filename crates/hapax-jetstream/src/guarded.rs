use std::{fmt, future::Future, sync::Arc, time::Duration};

use async_nats::jetstream::{
    self, AckKind,
    consumer::{AckPolicy, Config, PullConsumer},
};
use hapax_core::Millis;
use hapax_engine::{DeadLetters, Engine, Guard, GuardConfig, HandlerError, IntoTenant, Message, Settle};

use crate::{
    delivery::{self, StillWorking},
    error::SetupError,
    options::Options,
};

/// A pull consumer whose messages are each handled once.
#[derive(Clone)]
pub struct Guarded {
    pub(crate) consumer: PullConsumer,
    guard: Guard,
    options: Options,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("guard", &self.guard).field("options", &self.options).finish_non_exhaustive()
    }
}

impl Guarded {
    /// How long the server waits and how often it delivers is taken from the consumer.
    pub fn new(
        engine: &Engine,
        tenant: impl IntoTenant,
        consumer: PullConsumer,
        letters: Arc<dyn DeadLetters>,
        options: Options,
    ) -> Result<Self, SetupError> {
        let info = consumer.cached_info();
        let name = options.name.clone().unwrap_or_else(|| format!("{}/{}", info.stream_name, info.name));
        let policy = match info.config.ack_policy {
            AckPolicy::Explicit => None,
            AckPolicy::None => Some("none"),
            AckPolicy::All => Some("all"),
            // A policy of servers to come.
            #[allow(unreachable_patterns, reason = "newer servers know more")]
            _ => Some("unknown"),
        };
        if let Some(policy) = policy {
            return Err(SetupError::NotAcknowledged { consumer: name, policy });
        }
        // With back-offs the server waits for as long as they say, and not for `ack_wait`.
        let waits = info.config.backoff.iter().copied().chain([info.config.ack_wait]);
        let config = GuardConfig {
            consumer: name,
            ack_wait: waits.filter(|wait| !wait.is_zero()).min().unwrap_or(DEFAULT_ACK_WAIT),
            max_deliveries: u32::try_from(info.config.max_deliver).ok().filter(|most| *most > 0),
            back_offs: info.config.backoff.clone(),
            retention: options.retention.or_else(|| with_back_offs(&info.config)),
            effect: options.effect,
        };
        let guard = Guard::new(engine, tenant, config, letters)?;
        Ok(Self { consumer, guard, options })
    }

    /// Handles one delivery and tells the server what became of it. For those who pull by themselves; [`Guarded::run`] does
    /// it for you.
    pub async fn handle<F, Fut>(&self, delivery: jetstream::Message, handler: F) -> Settle
    where
        F: FnOnce(Message) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let Some(message) = delivery::message(&delivery, self.options.intent_header.as_deref()) else {
            return Settle::Terminate;
        };
        let (_, acker) = delivery.split();
        let progress = StillWorking(acker);
        let acker = Arc::new(progress);
        let settle = self.guard.handle(message.clone(), Arc::clone(&acker) as _, handler).await;
        if let Some(observe) = &self.options.observe {
            observe(&message, settle);
        }
        // If it does not arrive, the message comes again and the record answers for it.
        let _unsaid = acker.0.ack_with(delivery::acknowledgement(settle)).await;
        settle
    }

    /// Nobody here will handle it: somebody else may, at once.
    pub(crate) async fn give_back(&self, delivery: &jetstream::Message) {
        let _unsaid = delivery.ack_with(AckKind::Nak(None)).await;
    }
}

/// How long the server may go on to deliver a message, where each delivery has a wait of its own and the last one repeats.
fn with_back_offs(config: &Config) -> Option<Millis> {
    let last = *config.backoff.last()?;
    let deliveries = u32::try_from(config.max_deliver).ok().filter(|most| *most > 0)?;
    let rest = deliveries.saturating_sub(u32::try_from(config.backoff.len()).unwrap_or(u32::MAX));
    let all = config.backoff.iter().sum::<Duration>().saturating_add(last.saturating_mul(rest));
    Some(Millis::from_std(all).max(Millis::from_mins(10)))
}

/// The server's own, where a consumer does not say.
const DEFAULT_ACK_WAIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    /// A message that is delivered again after its marker is gone would be handled again.
    #[test]
    fn what_is_handled_is_remembered_for_as_long_as_it_may_come_again() {
        let backoff = vec![Duration::from_secs(60), Duration::from_secs(600)];
        let config = Config { backoff, max_deliver: 10, ..Config::default() };
        assert_eq!(with_back_offs(&config), Some(Millis::from_secs(60 + 600 + 8 * 600)));
        let short = Config { backoff: vec![Duration::from_secs(1)], max_deliver: 3, ..Config::default() };
        assert_eq!(with_back_offs(&short), Some(Millis::from_mins(10)));
        assert_eq!(with_back_offs(&Config { max_deliver: 3, ..Config::default() }), None, "the guard counts by itself");
        let endless = Config { backoff: vec![Duration::from_secs(1)], max_deliver: -1, ..Config::default() };
        assert_eq!(with_back_offs(&endless), None, "it has to be given");
    }
}
