//! From a begin's answer to what its caller does: run it, run it without a record, or be told.

use hapax_core::{
    Effect, Policy, Verdict,
    policy::{Mode, OnStoreError},
};

use crate::{
    begin::Begun,
    call::{Call, Prepared, Wait},
    engine::Engine,
    error::EngineError,
    stats::count,
    ticket::Ticket,
};

/// What the caller of an operation is to do.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// Run it, then [`Ticket::settle`] it.
    Execute(Ticket),
    /// Run it; nothing is recorded of it, and the ticket stands for no record.
    Unprotected { ticket: Ticket, why: Unprotected },
    /// Do not run it: this is the answer, and it is never [`Begun::Execute`].
    Told(Begun),
}

/// Why something runs without a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unprotected {
    /// It would have been stopped, and shadow mode stops nothing.
    Shadow,
    /// The store is gone, and the policy lets pure work go on without it.
    StoreGone,
}

impl Call {
    /// Asks for the right to run it, and carries out what the policy says of shadows and of stores that are gone.
    pub async fn decide(&self) -> Result<Decision, EngineError> {
        let engine = &self.engine;
        let prepared = match &self.prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(engine.in_spite_of(error, self.known()?)),
        };
        let mode = prepared.policy.mode;
        // Waiting would be the one thing that shadow mode does to a request.
        let patient = mode == Mode::Shadow && prepared.wait != Wait::No;
        let impatient = patient.then(|| self.clone().wait(Wait::No));
        let call = impatient.as_ref().unwrap_or(self);
        match call.begin_or_unsure().await {
            Ok(Begun::Execute(ticket)) => Ok(Decision::Execute(ticket)),
            Ok(begun) => match mode {
                Mode::Enforce => Ok(Decision::Told(begun)),
                Mode::Shadow => Ok(engine.run_anyway(prepared, &begun)),
            },
            Err(unsure) if unsure.waited => Err(unsure.error),
            Err(unsure) => engine.without_store(prepared, unsure.error),
        }
    }
}

impl Engine {
    /// Shadow mode: it runs whatever was decided, and what would have been stopped is noted.
    fn run_anyway(&self, prepared: &Prepared, begun: &Begun) -> Decision {
        let because = match begun {
            Begun::Execute(_) => "nothing",
            Begun::Replay(_) => "replay",
            Begun::JoinedFailure(_) => "joined failure",
            Begun::Told(verdict) => verdict_name(verdict),
        };
        self.unstopped(prepared, because)
    }

    /// As [`Engine::run_anyway`], where nothing could be decided.
    fn in_spite_of(&self, error: &EngineError, prepared: &Prepared) -> Decision {
        let because = match error {
            EngineError::Key(_) | EngineError::Name(_) => "bad key",
            EngineError::Fingerprint(_) => "no fingerprint",
            EngineError::Entropy(_) => "no randomness",
            EngineError::ForeignTurn => "foreign turn",
            EngineError::Store(_) | EngineError::NotFound(_) | EngineError::OtherSecret { .. } => "no verdict",
        };
        self.unstopped(prepared, because)
    }

    fn unstopped(&self, prepared: &Prepared, because: &'static str) -> Decision {
        self.would_stop(prepared.id, because);
        Decision::Unprotected { ticket: self.inner.ticket_for_nothing(prepared), why: Unprotected::Shadow }
    }

    /// The store gave no verdict: pure work may go on without it if the policy says so.
    fn without_store(&self, prepared: &Prepared, error: EngineError) -> Result<Decision, EngineError> {
        if !may_go_unrecorded(prepared.effect, &prepared.policy) {
            return Err(error);
        }
        if !matches!(error, EngineError::Store(_)) {
            return match prepared.policy.mode {
                Mode::Enforce => Err(error),
                Mode::Shadow => Ok(self.in_spite_of(&error, prepared)),
            };
        }
        count(&self.inner.counters.unrecorded);
        let ticket = self.inner.ticket_for_nothing(prepared);
        Ok(Decision::Unprotected { ticket, why: Unprotected::StoreGone })
    }
}

/// Whether it may run without a record: pure work where the policy says so, and whatever is only shadowed.
pub(crate) fn may_go_unrecorded(effect: Effect, policy: &Policy) -> bool {
    policy.mode == Mode::Shadow || (effect == Effect::Pure && policy.on_store_error == OnStoreError::FailOpen)
}

const fn verdict_name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::WindowClosed { .. } => "window closed",
        Verdict::Mismatch => "mismatch",
        Verdict::Replay(_) => "replay",
        Verdict::InFlight { .. } => "in flight",
        Verdict::InDoubt { .. } => "in doubt",
        Verdict::Refused(_) => "refused",
        Verdict::Fenced => "superseded",
        Verdict::Execute(_) => "nothing",
    }
}
