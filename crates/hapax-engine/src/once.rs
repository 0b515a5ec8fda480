//! The one call most users make: run it once, whoever asks and however often.

use std::{fmt, future::Future, panic::AssertUnwindSafe};

use hapax_core::{Body, Id, Outcome, OutcomeClass, Verdict, group::WhyNot, policy::Mode};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    begin::{Begun, Replayed},
    call::{Call, Prepared},
    caught::{Caught, Panic, panic_text},
    classify::Classify,
    decide::{Decision, Unprotected},
    engine::Engine,
    error::{EngineError, OnceError},
    group::GroupError,
    leased::Settled,
    recorded::{given_again, message_of, recorded_failure, recorded_value},
    steps::Stepped,
    ticket::Ticket,
};

/// What `once` gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnceDone<T> {
    pub value: T,
    /// The closure did not run for this call: an earlier one's answer is given again.
    pub replayed: bool,
    /// That earlier call was still running when this one came.
    pub joined: bool,
    pub attempt: u32,
    /// The closure ran, but the store was gone and the policy lets pure work go on without it.
    pub unrecorded: bool,
}

impl Call {
    /// Runs the effect unless it has run before, and gives its value either way.
    ///
    /// The effect is spawned: a caller that goes away does not stop it, and its outcome is recorded.
    pub async fn once<T, E, F, Fut>(self, effect: F) -> Result<OnceDone<T>, OnceError<E>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Classify + fmt::Display + Send + 'static,
        F: FnOnce(Ticket) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let running = tokio::spawn(self.once_inline(effect));
        match running.await {
            Ok(done) => done,
            // The task was shut down with its runtime. What it had begun lapses.
            Err(error) => Err(OnceError::Panicked(error.to_string())),
        }
    }

    /// As [`Call::once`], inside the caller's own future: what is dropped half-way lapses by its class.
    pub async fn once_inline<T, E, F, Fut>(self, effect: F) -> Result<OnceDone<T>, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify + fmt::Display,
        F: FnOnce(Ticket) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let decided = self.decide().await?;
        let prepared = self.known()?;
        match decided {
            Decision::Execute(ticket) => self.engine.run(prepared, ticket, effect).await,
            Decision::Unprotected { ticket, why } => {
                let attempt = ticket.attempt();
                let value = effect(ticket).await.map_err(OnceError::Failed)?;
                let unrecorded = why == Unprotected::StoreGone;
                Ok(OnceDone { value, replayed: false, joined: false, attempt, unrecorded })
            }
            Decision::Told(Begun::Told(Verdict::Fenced)) => Err(self.engine.fenced(prepared).await),
            Decision::Told(told) => told_instead(prepared.id, told),
        }
    }
}

/// What whoever may not run it gets instead.
pub(crate) fn told_instead<T: DeserializeOwned, E>(id: Id, told: Begun) -> Result<OnceDone<T>, OnceError<E>> {
    match told {
        Begun::Replay(replayed) => given_again(replayed),
        Begun::JoinedFailure(failure) => Err(OnceError::JoinedFailure { message: message_of(&failure) }),
        Begun::Told(verdict) => Err(why_not(id, verdict)),
        // A ticket is not told, it is given.
        Begun::Execute(_) => Err(OnceError::Superseded),
    }
}

impl Engine {
    /// What a call that was not let start is told: overtaken, unless its group has another reason.
    pub(crate) async fn fenced<E>(&self, prepared: &Prepared) -> OnceError<E> {
        match self.why_fenced(prepared).await {
            Ok(Some(GroupError::Refused { why: WhyNot::Superseded { .. }, .. }) | None) => OnceError::Superseded,
            Ok(Some(refused)) => OnceError::NotLetStart(refused),
            // It was refused; only the reason cannot be had now.
            Err(_) => OnceError::Superseded,
        }
    }

    async fn run<T, E, F, Fut>(
        &self,
        prepared: &Prepared,
        ticket: Ticket,
        effect: F,
    ) -> Result<OnceDone<T>, OnceError<E>>
    where
        T: Serialize,
        E: Classify + fmt::Display,
        F: FnOnce(Ticket) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let ran = match self.run_leased(prepared, &ticket, effect).await {
            Some(ran) => ran,
            None => return Err(OnceError::LeaseLost),
        };
        // What the user's own types say of themselves may panic as well; the effect has run by then.
        let said = |ran: &Result<Result<T, E>, Panic>| match ran {
            Ok(Ok(value)) => recorded_value(prepared, value),
            Ok(Err(error)) => recorded_failure(error),
            Err(panic) => unknown_after(panic),
        };
        let (ran, outcome) = match std::panic::catch_unwind(AssertUnwindSafe(|| said(&ran))) {
            Ok(outcome) => (ran, outcome),
            Err(panic) => {
                let outcome = unknown_after(&panic);
                (Err(panic), outcome)
            }
        };
        // A final refusal is an outcome like any other: on its word a caller goes on elsewhere, and whoever asks again must hear
        // the same. All other failures settle nothing that a later answer could contradict.
        let is_final = matches!(outcome.class, OutcomeClass::FinalFailure);
        let settled = ticket.settle(self, outcome).await;
        let ended = match ran {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if is_final => Err(OnceError::Failed(error)),
            Ok(Err(error)) => return Err(OnceError::Failed(error)),
            Err(panic) => return Err(OnceError::Panicked(panic_text(&panic))),
        };
        let given = |unrecorded| {
            let attempt = ticket.attempt();
            ended.map(|value| OnceDone { value, replayed: false, joined: false, attempt, unrecorded })
        };
        match settled {
            Settled::Recorded => given(false),
            Settled::Unrecorded => given(true),
            Settled::Overtaken => Err(OnceError::Overtaken),
            Settled::NotRecorded(error) => Err(OnceError::NotRecorded(error)),
        }
    }

    /// Runs the effect while its lease is renewed. `None`: the lease was lost, and the effect may be run again, so it
    /// was stopped. An effect that may not be run again goes on to its end, and its late outcome is offered.
    async fn run_leased<T, F, Fut>(&self, prepared: &Prepared, ticket: &Ticket, effect: F) -> Option<Result<T, Panic>>
    where
        F: FnOnce(Ticket) -> Fut,
        Fut: Future<Output = T>,
    {
        let enforced = prepared.policy.mode == Mode::Enforce;
        if !prepared.started && !matches!(ticket.start(self).await, Ok(Stepped::Done(_))) && enforced {
            // The start may have been written all the same, so it takes our word that nothing has happened.
            let released = ticket.release(self, hapax_core::command::Release::NoEffect).await;
            if let Err(EngineError::Store(error)) = &released
                && error.may_pass()
            {
                // A lease that stays when it is over would wait for an operator, for nothing.
                self.offer_later(ticket, Outcome::new(OutcomeClass::NotRecordable, Body::Empty));
            }
            return None;
        }
        ticket.during(self, Caught::new(effect, ticket.clone())).await
    }
}

fn why_not<E>(id: Id, verdict: Verdict) -> OnceError<E> {
    match verdict {
        Verdict::InFlight { retry_after, .. } => OnceError::InFlight { retry_after },
        Verdict::Mismatch => OnceError::Mismatch,
        Verdict::InDoubt { .. } => OnceError::InDoubt { id },
        Verdict::Refused(refusal) => OnceError::Refused(refusal),
        Verdict::Fenced | Verdict::Execute(_) => OnceError::Superseded,
        Verdict::WindowClosed { decided_wall, rejected, .. } => {
            OnceError::WindowClosed { decided: decided_wall, rejected }
        }
        Verdict::Replay(replay) => match given_again::<(), E>(Replayed { replay, joined: false }) {
            Ok(_) => OnceError::Superseded,
            Err(error) => error,
        },
    }
}

/// The effect, or what was to be said of it, panicked: what became of it is unknown.
fn unknown_after(panic: &Panic) -> Outcome {
    Outcome::new(OutcomeClass::Unknown, Body::Inline(panic_text(panic).into()))
}
