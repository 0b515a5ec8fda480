//! What the broker is told.

use std::time::Duration;

use super::{DeadLetter, Guard, HandlerError, Message, Why};
use crate::{error::OnceError, once::OnceDone};

/// What to tell the broker about a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Settle {
    Ack,
    /// Deliver it again after this.
    NakAfter(Duration),
    /// Never again.
    Terminate,
}

/// How long a message rests while the store cannot say anything about it.
const STORE_AWAY: Settle = Settle::NakAfter(Duration::from_secs(2));

impl Guard {
    pub(super) async fn settle(
        &self,
        message: &Message,
        done: Result<OnceDone<()>, OnceError<HandlerError>>,
    ) -> Settle {
        match done {
            // Handled now or before; its marker is durable.
            Ok(_) | Err(OnceError::AlreadyCompleted { .. } | OnceError::WindowClosed { .. }) => Settle::Ack,
            Err(OnceError::Failed(HandlerError::Retryable { delay, .. })) => Settle::NakAfter(delay),
            Err(OnceError::Failed(HandlerError::Final(why)) | OnceError::Rejected { message: why, .. }) => {
                self.bury(message, Why::Failed(why)).await
            }
            Err(OnceError::Failed(HandlerError::Undecodable(why))) => self.bury(message, Why::Undecodable(why)).await,
            Err(OnceError::Mismatch) => self.bury(message, Why::Mismatch).await,
            Err(OnceError::Failed(HandlerError::Unknown(_)) | OnceError::Panicked(_) | OnceError::InDoubt { .. }) => {
                self.doubtful(message).await
            }
            Err(OnceError::InFlight { retry_after }) => Settle::NakAfter(retry_after.as_std()),
            Err(OnceError::Refused(refusal)) => Settle::NakAfter(refusal.retry_after.as_std()),
            Err(OnceError::LeaseLost | OnceError::JoinedFailure { .. }) => Settle::NakAfter(self.pause(message)),
            Err(OnceError::Engine(_) | OnceError::NotRecorded(_) | OnceError::Overtaken | OnceError::Superseded) => {
                STORE_AWAY
            }
        }
    }

    /// In doubt: it may settle until the next delivery. If there is none, a person has to know before the broker forgets.
    async fn doubtful(&self, message: &Message) -> Settle {
        let last = self.config.max_deliveries.is_some_and(|most| message.delivery >= most);
        if last { self.bury(message, Why::InDoubt).await } else { Settle::NakAfter(self.pause(message)) }
    }

    /// The dead letter is durable before the broker is told to forget the message.
    pub(super) async fn bury(&self, message: &Message, why: Why) -> Settle {
        let letter = DeadLetter { consumer: self.config.consumer.clone(), message: message.clone(), why };
        match self.letters.put(letter).await {
            Ok(()) => Settle::Terminate,
            Err(_) => STORE_AWAY,
        }
    }

    fn pause(&self, message: &Message) -> Duration {
        let at = usize::try_from(message.delivery.saturating_sub(1)).unwrap_or(usize::MAX);
        let back_off = self.config.back_offs.get(at).or_else(|| self.config.back_offs.last());
        back_off.copied().unwrap_or(self.config.ack_wait)
    }
}
