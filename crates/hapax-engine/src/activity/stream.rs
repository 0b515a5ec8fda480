//! Answers that are streams: the call and its end are recorded, not the body.

use hapax_core::{Body, Outcome, OutcomeClass, Recorded, policy::OnUncaptured};
use tokio::task::JoinHandle;

use super::{Activity, Outgoing};
use crate::{begin::Begun, engine::Engine, error::EngineError, leased::Settled};

/// What is to be done about a stream.
#[derive(Debug)]
#[must_use]
pub enum StreamBegun {
    /// Make the call; its start is recorded.
    Open(ActivityStream),
    /// It was made and ended before. Its body is not kept; this names what it was.
    Finished { length: u64, digest: [u8; 32] },
    /// It ended before, and the policy lets what does no harm be called again for its body. Nothing is recorded of that.
    Again(Outgoing),
    /// Another verdict: in flight, in doubt, refused.
    Told(Box<Begun>),
}

/// A stream under way. Its lease is kept while this lives; dropped without an end it lapses by its class.
#[derive(Debug)]
pub struct ActivityStream {
    engine: Engine,
    outgoing: Outgoing,
    keeping: JoinHandle<()>,
}

impl Drop for ActivityStream {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

impl ActivityStream {
    #[must_use]
    pub const fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// Records the end. Say it before the last bytes are given on. What the store cannot take now is offered again.
    pub async fn end(self, status: u16, length: u64, digest: [u8; 32]) -> Settled {
        let mut outcome = Outcome::new(OutcomeClass::Success, Body::Uncaptured { length, digest });
        outcome.status = status;
        self.outgoing.ticket.settle(&self.engine, outcome).await
    }

    /// The stream broke off: what came of the call is unknown, and its class says what follows.
    pub async fn broken(self, why: &str) -> Settled {
        let outcome = Outcome::new(OutcomeClass::Unknown, Body::Inline(why.to_owned().into()));
        self.outgoing.ticket.settle(&self.engine, outcome).await
    }
}

impl Activity {
    /// Asks for the right to make a call whose answer is a stream.
    pub async fn stream(self) -> Result<StreamBegun, EngineError> {
        let (engine, provider, effect) = (self.engine, self.provider, self.effect);
        let again = self.call.prepared.clone();
        match self.call.begin().await? {
            Begun::Execute(ticket) => {
                let keeping = tokio::spawn({
                    let (engine, ticket) = (engine.clone(), ticket.clone());
                    async move { engine.keep_lease(&ticket).await }
                });
                let outgoing = Outgoing::of(ticket, provider.as_deref());
                Ok(StreamBegun::Open(ActivityStream { engine, outgoing, keeping }))
            }
            Begun::Replay(replayed) => {
                let again = again?;
                let reinvoke = again.policy.capture.on_uncaptured == OnUncaptured::Reinvoke;
                let uncaptured = match &replayed.replay.answer {
                    Recorded::Whole(Outcome { body: Body::Uncaptured { length, digest }, .. }) => {
                        Some((*length, *digest))
                    }
                    Recorded::DigestOnly { digest, .. } => Some((0, *digest)),
                    Recorded::Whole(_) => None,
                };
                match uncaptured {
                    Some(_) if reinvoke && effect.may_rerun() => {
                        let ticket = engine.inner.ticket_for_nothing(&again)?;
                        Ok(StreamBegun::Again(Outgoing::of(ticket, provider.as_deref())))
                    }
                    Some((length, digest)) => Ok(StreamBegun::Finished { length, digest }),
                    None => Ok(StreamBegun::Told(Box::new(Begun::Replay(replayed)))),
                }
            }
            told @ (Begun::JoinedFailure(_) | Begun::Told(_)) => Ok(StreamBegun::Told(Box::new(told))),
        }
    }
}
