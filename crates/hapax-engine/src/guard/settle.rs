//! What the broker is told.

use std::time::Duration;

use super::{HandlerError, Judge, Why};
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

/// What is to become of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Judged {
    Tell(Settle),
    /// Put it aside, durably, where a person finds it; then [`Settle::Terminate`].
    Bury(Why),
}

/// How long a message rests while the store cannot say anything about it.
pub(super) const STORE_AWAY: Settle = Settle::NakAfter(Duration::from_secs(2));

impl Judge {
    /// What comes of how the handling of this delivery, counted from 1, has ended.
    pub(super) fn judged(&self, delivery: u32, done: Result<OnceDone<()>, OnceError<HandlerError>>) -> Judged {
        let tell = Judged::Tell;
        match done {
            // Handled now or before; its marker is durable.
            Ok(_) | Err(OnceError::AlreadyCompleted { .. } | OnceError::WindowClosed { .. }) => tell(Settle::Ack),
            Err(OnceError::Failed(HandlerError::Retryable { delay, .. })) => tell(Settle::NakAfter(delay)),
            Err(OnceError::Failed(HandlerError::Final(why)) | OnceError::Rejected { message: why, .. }) => {
                Judged::Bury(Why::Failed(why))
            }
            Err(OnceError::Failed(HandlerError::Undecodable(why))) => Judged::Bury(Why::Undecodable(why)),
            Err(OnceError::Mismatch) => Judged::Bury(Why::Mismatch),
            Err(OnceError::Failed(HandlerError::Unknown(_)) | OnceError::Panicked(_) | OnceError::InDoubt { .. }) => {
                self.doubtful(delivery)
            }
            Err(OnceError::InFlight { retry_after }) => tell(Settle::NakAfter(retry_after.as_std())),
            Err(OnceError::Refused(refusal)) => tell(Settle::NakAfter(refusal.retry_after.as_std())),
            Err(OnceError::LeaseLost | OnceError::JoinedFailure { .. }) => tell(Settle::NakAfter(self.pause(delivery))),
            // A message is handled in no turn, so no group refuses it.
            Err(
                OnceError::Engine(_)
                | OnceError::NotRecorded(_)
                | OnceError::Overtaken
                | OnceError::Superseded
                | OnceError::NotLetStart(_),
            ) => tell(STORE_AWAY),
        }
    }

    /// In doubt: it may settle until the next delivery. If there is none, a person has to know before the broker forgets.
    fn doubtful(&self, delivery: u32) -> Judged {
        let last = self.config().max_deliveries.is_some_and(|most| delivery >= most);
        if last { Judged::Bury(Why::InDoubt) } else { Judged::Tell(Settle::NakAfter(self.pause(delivery))) }
    }

    fn pause(&self, delivery: u32) -> Duration {
        let (at, config) = (usize::try_from(delivery.saturating_sub(1)).unwrap_or(usize::MAX), self.config());
        let back_off = config.back_offs.get(at).or_else(|| config.back_offs.last());
        back_off.copied().unwrap_or(config.ack_wait)
    }
}
