//! Answers that are streams: the call and its end are recorded, not the body.

use hapax_core::{Body, Nonce, Outcome, OutcomeClass, Recorded, policy::OnUncaptured};
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

/// As [`StreamBegun`], for whoever makes the call elsewhere and keeps its lease.
#[derive(Debug)]
#[must_use]
pub enum StreamClaimed {
    /// Make the call; its start is recorded. Then say how it ended: [`stream_end`], [`stream_broken`].
    Call(Outgoing),
    Finished {
        attempt: u32,
        status: u16,
        length: u64,
        digest: [u8; 32],
    },
    Again(Outgoing),
    Told(Box<Begun>),
}

/// The end of a stream, as it is recorded: its body is not.
#[must_use]
pub fn stream_end(status: u16, length: u64, digest: [u8; 32]) -> Outcome {
    let mut outcome = Outcome::new(OutcomeClass::Success, Body::Uncaptured { length, digest });
    outcome.status = status;
    outcome
}

/// A stream that broke off: what came of the call is unknown, and its class says what follows.
#[must_use]
pub fn stream_broken(why: &str) -> Outcome {
    Outcome::new(OutcomeClass::Unknown, Body::Inline(why.to_owned().into()))
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
        self.outgoing.ticket.settle(&self.engine, stream_end(status, length, digest)).await
    }

    /// The stream broke off: what came of the call is unknown, and its class says what follows.
    pub async fn broken(self, why: &str) -> Settled {
        self.outgoing.ticket.settle(&self.engine, stream_broken(why)).await
    }
}

impl Activity {
    /// Asks for the right to make a call whose answer is a stream.
    pub async fn stream(self) -> Result<StreamBegun, EngineError> {
        let engine = self.engine.clone();
        Ok(match self.claim_stream(None).await? {
            StreamClaimed::Call(outgoing) => {
                let keeping = tokio::spawn({
                    let (engine, ticket) = (engine.clone(), outgoing.ticket.clone());
                    async move { engine.keep_lease(&ticket).await }
                });
                StreamBegun::Open(ActivityStream { engine, outgoing, keeping })
            }
            StreamClaimed::Finished { length, digest, .. } => StreamBegun::Finished { length, digest },
            StreamClaimed::Again(outgoing) => StreamBegun::Again(outgoing),
            StreamClaimed::Told(told) => StreamBegun::Told(told),
        })
    }

    /// As [`Activity::stream`], without keeping the lease. `nonce`: as for [`crate::Call::begin_with`].
    pub async fn claim_stream(self, nonce: Option<Nonce>) -> Result<StreamClaimed, EngineError> {
        let (engine, provider, effect) = (self.engine, self.provider, self.effect);
        let again = self.call.prepared.clone();
        let begun = match nonce {
            Some(nonce) => self.call.begin_with(nonce).await?,
            None => self.call.begin().await?,
        };
        let replayed = match begun {
            Begun::Execute(ticket) => return Ok(StreamClaimed::Call(Outgoing::of(ticket, provider.as_deref()))),
            told @ (Begun::JoinedFailure(_) | Begun::Told(_)) => return Ok(StreamClaimed::Told(Box::new(told))),
            Begun::Replay(replayed) => replayed,
        };
        let attempt = replayed.replay.attempt;
        let (status, length, digest) = match &replayed.replay.answer {
            Recorded::Whole(Outcome { body: Body::Uncaptured { length, digest }, status, .. }) => {
                (*status, *length, *digest)
            }
            Recorded::DigestOnly { status, digest } => (*status, 0, *digest),
            Recorded::Whole(_) => return Ok(StreamClaimed::Told(Box::new(Begun::Replay(replayed)))),
        };
        let again = again?;
        if again.policy.capture.on_uncaptured == OnUncaptured::Reinvoke && effect.may_rerun() {
            let ticket = engine.inner.ticket_for_nothing(&again);
            return Ok(StreamClaimed::Again(Outgoing::of(ticket, provider.as_deref())));
        }
        Ok(StreamClaimed::Finished { attempt, status, length, digest })
    }
}
