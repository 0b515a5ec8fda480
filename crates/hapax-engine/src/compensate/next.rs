//! A plan that is run step by step by somebody else: another process, in whatever language.

use std::collections::HashMap;

use hapax_core::{
    Effect, Millis, Nonce, Recorded, Verdict,
    plan::{Inverse, Plan, StepState, Unwinding},
};

use super::{UnwindError, run::nobody_knows};
use crate::{begin::Begun, call::Wait, error::EngineError, group::GroupHandle, ticket::Ticket};

/// The next inverse of a plan.
#[derive(Debug)]
#[must_use]
pub enum NextInverse {
    /// Run it, and say how its operation ended; then ask for the next.
    Run { step: Inverse, ticket: Box<Ticket> },
    /// Another process is at it, or there is no room: ask again.
    Later { retry_after: Millis },
    /// Nothing is to be run now: it is over, or a person has to look.
    Nothing { state: Unwinding, plan: Plan },
}

/// What the record of an inverse says about its step.
enum Said {
    Run(Ticket),
    Later(Millis),
    Mark(StepState, Option<String>),
}

impl GroupHandle {
    /// Claims the next inverse of the plan. How the ones before it ended is read from their operations, so nobody has to
    /// say it twice. `effects` names what the caller knows how to do, with its class.
    pub async fn next_inverse(
        &self,
        effects: &HashMap<String, Effect>,
        nonce: Nonce,
        lease: Option<Millis>,
    ) -> Result<NextInverse, UnwindError> {
        let stored = self.engine().inner.stored_plan(&self.id()).await.map_err(EngineError::from)?;
        let mut plan = stored.ok_or(UnwindError::NoPlan { group: self.id() })?;
        while let Some(step) = plan.next().cloned() {
            if !plan.running {
                self.mark_running().await?;
            }
            let said = match effects.get(&*step.name) {
                None => Said::Mark(StepState::Manual, Some(nobody_knows(&step))),
                Some(effect) => {
                    let call = self.inverse(&step, *effect).wait(Wait::No);
                    let call = match lease {
                        Some(lease) => call.lease(lease),
                        None => call,
                    };
                    said(call.begin_with(nonce).await?)
                }
            };
            match said {
                Said::Run(ticket) => return Ok(NextInverse::Run { step, ticket: Box::new(ticket) }),
                Said::Later(retry_after) => return Ok(NextInverse::Later { retry_after }),
                Said::Mark(state, note) => plan = self.mark(step.ordinal, state, note.as_deref()).await?,
            }
        }
        self.closed_if_undone(&plan).await?;
        Ok(NextInverse::Nothing { state: plan.state(), plan })
    }
}

fn said(begun: Begun) -> Said {
    let manual = |why: &str| Said::Mark(StepState::Manual, Some(why.to_owned()));
    match begun {
        Begun::Execute(ticket) => Said::Run(ticket),
        Begun::Replay(replayed) if replayed.replay.rejected => {
            let note = match &replayed.replay.answer {
                Recorded::Whole(outcome) => crate::recorded::message_of(outcome),
                Recorded::DigestOnly { .. } => String::new(),
            };
            Said::Mark(StepState::Failed, Some(note))
        }
        Begun::Replay(_) | Begun::Told(Verdict::WindowClosed { .. }) => Said::Mark(StepState::Done, None),
        Begun::JoinedFailure(_) => Said::Later(SOON),
        Begun::Told(Verdict::InFlight { retry_after, .. }) => Said::Later(retry_after),
        Begun::Told(Verdict::Refused(refusal)) => Said::Later(refusal.retry_after),
        Begun::Told(Verdict::InDoubt { .. }) => manual("whether it was undone is unknown"),
        Begun::Told(Verdict::Mismatch | Verdict::Fenced) => manual("its operation belongs to another request"),
        // These two never come this way: the engine gives them as what they are.
        Begun::Told(Verdict::Execute(_) | Verdict::Replay(_)) => Said::Later(SOON),
    }
}

const SOON: Millis = Millis::from_secs(1);
