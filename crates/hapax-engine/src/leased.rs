//! The time between begin and end: the lease is kept while work runs, and its outcome is brought home.

use std::{future::Future, sync::Arc, time::Duration};

use hapax_core::{Outcome, policy::Mode};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    decide::may_go_unrecorded, engine::Engine, error::EngineError, stats::count, steps::Stepped, ticket::Ticket,
};

/// What became of an outcome.
#[derive(Debug)]
#[must_use]
pub enum Settled {
    Recorded,
    /// The store could not take it, and the policy lets pure work go on without it.
    Unrecorded,
    /// Somebody else decided meanwhile: this outcome was refused and is kept as evidence.
    Overtaken,
    /// The store could not take it now; it is offered again for a while.
    NotRecorded(EngineError),
}

/// Counts the outcomes that are on their way to a store which could not take them.
#[derive(Clone, Debug)]
pub(crate) struct Offering(watch::Sender<usize>);

/// One of them.
#[derive(Debug)]
struct Offered(Offering);

impl Offering {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    fn one_more(&self) -> Offered {
        self.0.send_modify(|count| *count += 1);
        Offered(self.clone())
    }

    fn count(&self) -> usize {
        *self.0.borrow()
    }

    async fn none(&self) {
        // The sender lives as long as this does.
        let mut counts = self.0.subscribe();
        let _never_closed = counts.wait_for(|count| *count == 0).await;
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// How long an outcome is offered to a store that cannot take it.
const OFFERED_FOR: Duration = Duration::from_secs(600);

impl Ticket {
    /// Says how the attempt ended. An outcome that the store cannot take now is offered again in the background: late it
    /// is taken as well, unless somebody has decided.
    pub async fn settle(&self, engine: &Engine, outcome: Outcome) -> Settled {
        let stepped = self.finish_as(engine, &outcome).await;
        if let Err(EngineError::Store(error)) = &stepped
            && error.may_pass()
        {
            engine.offer_later(self, outcome);
        }
        match stepped {
            Ok(Stepped::Done(_)) => Settled::Recorded,
            // Shadow mode decides and stops nothing, least of all the answer to what has run.
            Ok(_) if self.policy.mode == Mode::Shadow => Settled::Recorded,
            Err(_) if may_go_unrecorded(self.effect, &self.policy) => {
                count(&engine.inner.counters.unrecorded);
                Settled::Unrecorded
            }
            Ok(Stepped::Fenced | Stepped::Conflict(_) | Stepped::Refused(_)) => Settled::Overtaken,
            Err(error) => Settled::NotRecorded(error),
        }
    }

    /// Runs something while the lease is renewed. `None`: the lease was lost, and the effect may be run again, so it
    /// was dropped. An effect that may not be run again goes on to its end, and its late outcome is offered.
    pub async fn during<F: Future>(&self, engine: &Engine, work: F) -> Option<F::Output> {
        let mut work = std::pin::pin!(work);
        let mut keeping = std::pin::pin!(engine.keep_lease(self));
        tokio::select! {
            biased;
            done = work.as_mut() => return Some(done),
            () = keeping.as_mut() => {}
        }
        if self.effect.may_rerun() && self.policy.mode == Mode::Enforce {
            return None;
        }
        Some(work.await)
    }
}

impl Engine {
    /// Goes on offering an outcome that the store could not take. Late it is taken as well, unless somebody has decided.
    pub(crate) fn offer_later(&self, ticket: &Ticket, outcome: Outcome) {
        // Between two tries nothing holds the engine: whoever lets go of it can open its store again.
        let (engine, ticket) = (Arc::downgrade(&self.inner), ticket.clone());
        let mut wait = self.inner.settings.store_backoff;
        let offering = self.inner.offering.one_more();
        tokio::spawn(async move {
            let _until_it_is_home = offering;
            let mut waited = Duration::ZERO;
            while waited < OFFERED_FOR {
                tokio::time::sleep(wait).await;
                waited += wait;
                wait = wait.saturating_mul(2).min(Duration::from_secs(5));
                let Some(inner) = engine.upgrade() else { return };
                match ticket.finish_as(&Engine { inner }, &outcome).await {
                    Err(EngineError::Store(error)) if error.may_pass() => {}
                    Ok(_) | Err(_) => return,
                }
            }
        });
    }

    /// Until no outcome is offered any more that the store could not take: whoever stops before loses what they hold.
    pub async fn settled(&self) {
        self.inner.offering.none().await;
    }

    /// How many outcomes are offered that the store could not take.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.inner.offering.count()
    }

    /// Renews at a third of the lease; returns when the lease is lost.
    pub(crate) async fn keep_lease(&self, ticket: &Ticket) {
        let lease = ticket.lease.as_std();
        let third = lease / 3;
        let mut next = Instant::now() + third;
        loop {
            let deadline = *ticket.held.deadline.lock();
            if Instant::now() >= deadline {
                return;
            }
            sleep_until(next.min(deadline)).await;
            // Most work is done before: what only a renewal needs is not carried along by each.
            next = match Box::pin(tokio::time::timeout_at(deadline, ticket.renew(self))).await {
                Ok(Ok(Stepped::Done(_))) => Instant::now() + third,
                Ok(Ok(Stepped::Fenced | Stepped::Conflict(_))) => return,
                // No longer renewed: it runs out.
                Ok(Ok(Stepped::Refused(_))) => {
                    sleep_until(deadline).await;
                    return;
                }
                // Try again soon, while the lease still runs.
                Ok(Err(_)) | Err(_) => Instant::now() + third / 4,
            };
        }
    }
}
