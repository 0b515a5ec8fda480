//! Running a plan: one inverse after the other, each an operation of its own.

use std::{sync::Arc, time::Duration};

use hapax_core::{
    Effect, Id, group_tag,
    identity::{Key, recipes::native},
    plan::{Inverse, Plan, PlanCommand, StepState, Unwinding},
};

use super::{Compensations, Undo, UndoError, UnwindError, UnwindOptions, Unwound};
use crate::{
    call::Call,
    classify::{Classified, Failure},
    error::{EngineError, OnceError},
    group::GroupHandle,
};

/// The surface under which inverses are recorded.
const SURFACE: &str = "compensation";

/// What one run of an inverse came to.
enum Ran {
    Marked(StepState, Option<String>),
    /// Another process is at it, or it failed retryably as often as was allowed: later.
    Later,
}

impl GroupHandle {
    /// Undoes what the group has done, as [`GroupHandle::unwind_with`] with patience by default.
    pub async fn unwind(&self, compensations: &Compensations) -> Result<Unwound, UnwindError> {
        self.unwind_with(compensations, UnwindOptions::default()).await
    }

    /// Undoes what the group has done, the last start first. It can be said again, by anybody, until it is over.
    pub async fn unwind_with(
        &self,
        compensations: &Compensations,
        options: UnwindOptions,
    ) -> Result<Unwound, UnwindError> {
        let plan = match self.plan_unwinding(options.wait).await? {
            Unwound::Plan { plan, .. } => plan,
            not_yet @ Unwound::NotYet(_) => return Ok(not_yet),
        };
        let plan = self.run_plan(plan, compensations, options).await?;
        self.closed_if_undone(&plan).await?;
        Ok(Unwound::Plan { state: plan.state(), plan })
    }

    /// Marks the group, waits for what is under way and writes the plan down, without running it: for whoever runs the
    /// inverses elsewhere. Said again it gives the plan as it stands.
    pub async fn plan_unwinding(&self, wait: Duration) -> Result<Unwound, UnwindError> {
        let (engine, id) = (self.engine(), self.id());
        let plan = match engine.inner.stored_plan(&id).await.map_err(EngineError::from)? {
            Some(plan) => plan,
            None => {
                self.mark_unwinding().await?;
                let unsettled = engine.unsettled_members(&id, wait).await?;
                if !unsettled.is_empty() {
                    return Ok(Unwound::NotYet(unsettled));
                }
                let make = engine.inner.planned(&id, self.about()).await.map_err(EngineError::from)?;
                let make = make.ok_or(UnwindError::NoPlan { group: id })?;
                // Durable before the first inverse: whoever comes after a crash finds the same plan.
                let made = engine.inner.ask_plan(&id, &make).await.map_err(EngineError::from)?;
                made.ok_or(UnwindError::NoPlan { group: id })?
            }
        };
        self.closed_if_undone(&plan).await?;
        Ok(Unwound::Plan { state: plan.state(), plan })
    }

    /// A group of which nothing is left to undo is let go.
    pub(super) async fn closed_if_undone(&self, plan: &Plan) -> Result<(), UnwindError> {
        match plan.state() {
            Unwinding::None | Unwinding::Completed if plan.kept.is_none() => Ok(self.close().await?),
            Unwinding::None
            | Unwinding::Completed
            | Unwinding::Pending
            | Unwinding::Running
            | Unwinding::Partial
            | Unwinding::Failed
            | Unwinding::Manual => Ok(()),
        }
    }

    /// The plan as it stands, if there is one.
    pub async fn plan(&self) -> Result<Option<Plan>, UnwindError> {
        Ok(self.engine().inner.stored_plan(&self.id()).await.map_err(EngineError::from)?)
    }

    /// A person has undone this effect by other means; `note` says how. The plan can go on, or is over: then
    /// the group is let go.
    pub async fn seen_to(&self, ordinal: u64, note: &str) -> Result<Plan, UnwindError> {
        let plan = self.mark(ordinal, StepState::SeenTo, Some(note)).await?;
        self.closed_if_undone(&plan).await?;
        Ok(plan)
    }

    /// A person has found that this inverse may be tried again.
    pub async fn retry_inverse(&self, ordinal: u64) -> Result<Plan, UnwindError> {
        self.mark(ordinal, StepState::Pending, None).await
    }

    pub(super) async fn mark(&self, ordinal: u64, state: StepState, note: Option<&str>) -> Result<Plan, UnwindError> {
        let mark = PlanCommand::Mark { ordinal, state, note: note.map(Arc::from) };
        let marked = self.engine().inner.ask_plan(&self.id(), &mark).await.map_err(EngineError::from)?;
        marked.ok_or(UnwindError::NoPlan { group: self.id() })
    }

    /// The first inverse is about to run.
    pub(super) async fn mark_running(&self) -> Result<Plan, UnwindError> {
        let run = self.engine().inner.ask_plan(&self.id(), &PlanCommand::Run).await.map_err(EngineError::from)?;
        run.ok_or(UnwindError::NoPlan { group: self.id() })
    }

    async fn run_plan(
        &self,
        mut plan: Plan,
        compensations: &Compensations,
        options: UnwindOptions,
    ) -> Result<Plan, UnwindError> {
        if plan.next().is_some() && !plan.running {
            plan = self.mark_running().await?;
        }
        while let Some(step) = plan.next().cloned() {
            let (state, note) = match self.run_step(&step, compensations, options).await? {
                Ran::Marked(state, note) => (state, note),
                Ran::Later => return Ok(plan),
            };
            plan = self.mark(step.ordinal, state, note.as_deref()).await?;
        }
        Ok(plan)
    }

    async fn run_step(
        &self,
        step: &Inverse,
        compensations: &Compensations,
        options: UnwindOptions,
    ) -> Result<Ran, UnwindError> {
        let Some((effect, undo)) = compensations.by_name.get(&*step.name) else {
            return Ok(Ran::Marked(StepState::Manual, Some(nobody_knows(step))));
        };
        let mut wait = options.back_off;
        for _ in 0..options.tries.max(1) {
            let (undo, what) = (Arc::clone(undo), step.clone());
            let call = self.inverse(step, *effect);
            let ran = call
                .once(move |ticket| async move {
                    let (name, input) = (what.name, what.input);
                    undo(Undo { name, member: what.member, ordinal: what.ordinal, input, ticket }).await
                })
                .await;
            match verdict(ran) {
                Verdict::Mark(state, note) => return Ok(Ran::Marked(state, note)),
                Verdict::Later => return Ok(Ran::Later),
                Verdict::Engine(error) => return Err(error.into()),
                Verdict::Again => {
                    tokio::time::sleep(wait).await;
                    wait = wait.saturating_mul(2);
                }
            }
        }
        Ok(Ran::Later)
    }
}

impl GroupHandle {
    /// The protected call of one inverse.
    pub(super) fn inverse(&self, step: &Inverse, effect: Effect) -> Call {
        self.engine()
            .surface(SURFACE)
            .tenant(self.tenant())
            .with_key(inverse_key(&self.id(), step.ordinal))
            .fingerprint(&(&*step.name, &*step.input))
            .effect(effect)
            // Listed with the group and kept as long as it is, so that it is not run again after its own time.
            .set(|prepared| {
                prepared.tied(|ties| ties.run = Some(group_tag(&self.id())));
                prepared.hold();
            })
    }
}

/// One inverse, whoever runs it and however often: there is no attempt in its key.
fn inverse_key(group: &Id, ordinal: u64) -> Key {
    native::named("compensation", 1, &[("group", &group.0), ("ordinal", &ordinal.to_le_bytes())])
}

pub(super) fn nobody_knows(step: &Inverse) -> String {
    format!("nothing here knows how to do `{}`", step.name)
}

enum Verdict {
    Mark(StepState, Option<String>),
    Again,
    Later,
    Engine(EngineError),
}

fn verdict(ran: Result<crate::once::OnceDone<()>, OnceError<UndoError>>) -> Verdict {
    let manual = |why: String| Verdict::Mark(StepState::Manual, Some(why));
    match ran {
        Ok(_) | Err(OnceError::AlreadyCompleted { .. } | OnceError::WindowClosed { .. }) => {
            Verdict::Mark(StepState::Done, None)
        }
        Err(OnceError::Failed(Classified { failure, error })) => match failure {
            Failure::Final => Verdict::Mark(StepState::Failed, Some(error)),
            Failure::Retryable | Failure::NoEffect => Verdict::Again,
            Failure::Unknown => manual(format!("whether it was undone is unknown: {error}")),
        },
        Err(OnceError::Rejected { message, .. }) => Verdict::Mark(StepState::Failed, Some(message)),
        Err(OnceError::JoinedFailure { .. } | OnceError::LeaseLost | OnceError::Refused(_)) => Verdict::Again,
        Err(OnceError::InFlight { .. }) => Verdict::Later,
        Err(OnceError::Engine(error)) => Verdict::Engine(error),
        // It may have happened here; the record knows, or will.
        Err(OnceError::NotRecorded(error)) => Verdict::Engine(error),
        Err(
            error @ (OnceError::Panicked(_)
            | OnceError::InDoubt { .. }
            | OnceError::Overtaken
            | OnceError::Mismatch
            | OnceError::Superseded
            | OnceError::NotLetStart(_)),
        ) => manual(error.to_string()),
    }
}
