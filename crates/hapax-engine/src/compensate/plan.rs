//! What is to be undone, found out once and written down before anything is.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::{
    Body, Command, Compensation, CompensationInput, Effect, Id, Outcome, Record, State, as_read,
    group::{Group, Started, is_listed},
    identity::Surface,
    plan::{
        Inverse, Plan, PlanCommand, PlanReply, StepState, apply_plan, came_of, is_still_doubted, last_starts,
        stands_unlisted,
    },
    record::About,
};
use hapax_store::StoreError;
use serde_json::value::RawValue;

use super::pointed::pointed;
use crate::{
    activity::{self, Answered},
    engine::{Engine, Inner},
    error::EngineError,
    group::Progress,
};

/// Where the plan of a group lies.
pub(crate) fn plan_id(group: &Id) -> Id {
    Id::derived("hapax.plan.v1", &[&group.0])
}

/// What a started member comes to in the plan.
enum Part {
    Nothing,
    Without,
    Undo(Inverse),
}

impl Engine {
    /// Waits for members whose end is open. What is left of them when the time is over, or cannot be waited for.
    pub(super) async fn unsettled_members(
        &self,
        group: &Id,
        wait: Duration,
    ) -> Result<Vec<(Id, Progress)>, EngineError> {
        let until = tokio::time::Instant::now() + wait;
        let mut left = Vec::new();
        for member in self.inner.members(group).await? {
            self.inner.take_back_unlisted(&member).await?;
            let mut progress = self.inner.progress(&member).await?;
            if progress == Progress::Running {
                progress = match tokio::time::timeout_at(until, self.follow(&member)).await {
                    Ok(ended) => ended?,
                    Err(_over) => Progress::Running,
                };
                // It may have lapsed into doubt between its mark and the group's answer.
                self.inner.take_back_unlisted(&member).await?;
                progress = match progress {
                    Progress::InDoubt => self.inner.progress(&member).await?,
                    Progress::Gone
                    | Progress::Waiting
                    | Progress::Running
                    | Progress::Open
                    | Progress::Committed
                    | Progress::Rejected => progress,
                };
            }
            match progress {
                Progress::Running | Progress::InDoubt => left.push((member, progress)),
                // What waits for its start is refused when it asks for it.
                Progress::Gone | Progress::Waiting | Progress::Open | Progress::Committed | Progress::Rejected => {}
            }
        }
        left.extend(self.inner.doubted_elsewhere(group).await?);
        Ok(left)
    }
}

impl Inner {
    /// A member that is marked as started but is not listed has not run: the group refuses it. Whoever wrote the mark
    /// may have died in between, so it is taken back here.
    async fn take_back_unlisted(&self, member: &Id) -> Result<(), StoreError> {
        let Some(seen) = self.operation(member).await? else { return Ok(()) };
        let now = self.now(&seen);
        let Some(record) = seen.record.as_deref().and_then(|record| as_read(record, now)) else { return Ok(()) };
        let marked = match &record.state {
            State::Pending(pending) => pending.started,
            State::InDoubt(_) => true,
            State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => false,
        };
        if !marked || !is_listed(record.effect) || self.may_go_on(member, &record).await?.is_ok() {
            return Ok(());
        }
        let (policy, about, token) = (self.policy_for(&seen), seen.about(), record.token());
        drop(record);
        self.carry(&policy, member, seen, &about, &Command::Unstart { token }).await?;
        Ok(())
    }

    /// Members that this group started and that somebody else has taken up since, with the doubt still open.
    async fn doubted_elsewhere(&self, group: &Id) -> Result<Vec<(Id, Progress)>, StoreError> {
        let starts = self.look_at::<Group>(group).await?.record.map(|group| group.starts).unwrap_or_default();
        let mut doubted = Vec::new();
        for start in &last_starts(&starts) {
            let Some(seen) = self.operation(&start.member).await? else { continue };
            let now = self.now(&seen);
            let read = seen.record.as_deref().and_then(|record| as_read(record, now));
            if let Some(record) = read.filter(|record| is_still_doubted(record, group, start)) {
                doubted.push((start.member, Progress::of(&record)));
            }
        }
        Ok(doubted)
    }

    pub(super) async fn ask_plan(&self, group: &Id, command: &PlanCommand) -> Result<Option<Plan>, StoreError> {
        self.decide(&plan_id(group), |plan: Option<&Plan>, moment| {
            let step = apply_plan(plan, command, moment);
            let reply = match step.reply {
                PlanReply::Plan(plan) => Some(*plan),
                PlanReply::Absent => None,
            };
            (step.write, reply)
        })
        .await
    }

    pub(super) async fn stored_plan(&self, group: &Id) -> Result<Option<Plan>, StoreError> {
        Ok(self.look_at::<Plan>(&plan_id(group)).await?.record)
    }

    /// The plan for a group that nothing can be added to any more; it is not written yet.
    pub(super) async fn planned(&self, group: &Id, about: &Arc<About>) -> Result<Option<PlanCommand>, StoreError> {
        let Some(record) = self.look_at::<Group>(group).await?.record else { return Ok(None) };
        let mut steps = Vec::new();
        let mut without = 0;
        for start in &last_starts(&record.starts) {
            match self.part(group, start).await? {
                Part::Nothing => {}
                Part::Without => without += 1,
                Part::Undo(inverse) => steps.push(inverse),
            }
        }
        for member in self.members(group).await? {
            let Some(seen) = self.operation(&member).await? else { continue };
            let now = self.now(&seen);
            let read = seen.record.as_deref().and_then(|record| as_read(record, now));
            without += u32::from(read.is_some_and(|record| stands_unlisted(&record, group)));
        }
        Ok(Some(PlanCommand::Make { about: Arc::clone(about), group: *group, steps, without }))
    }

    async fn part(&self, group: &Id, start: &Started) -> Result<Part, StoreError> {
        let Some(seen) = self.operation(&start.member).await? else { return Ok(Part::Nothing) };
        let now = self.now(&seen);
        let read = seen.record.as_deref().and_then(|record| as_read(record, now));
        // What was done after this start, elsewhere or by a later turn, is undone from there.
        let Some(record) = read.filter(|record| came_of(record, group, start)) else { return Ok(Part::Nothing) };
        let outcome = match &record.state {
            State::Committed(done) => Some(&done.outcome),
            // Its body went to make room, or with its time.
            State::Tombstone(stone) if !stone.rejected => None,
            State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Rejected(_) | State::Tombstone(_) => {
                return Ok(Part::Nothing);
            }
        };
        let Some(compensation) = compensation_of(&record) else { return Ok(Part::Without) };
        let input = self.resolved(&record, compensation, outcome).await?;
        let (input, state, note) = match input {
            Ok(input) => (input, StepState::Pending, None),
            Err(note) => (Bytes::new(), StepState::Manual, Some(Arc::from(note))),
        };
        let name = Arc::clone(&compensation.name);
        let (member, ordinal) = (start.member, start.ordinal);
        Ok(Part::Undo(Inverse { member, ordinal, name, input, state, note }))
    }

    /// The input of an inverse, or why a person has to find it.
    async fn resolved(
        &self,
        record: &Record,
        compensation: &Compensation,
        outcome: Option<&Outcome>,
    ) -> Result<Result<Bytes, &'static str>, StoreError> {
        let pointer = match &compensation.input {
            CompensationInput::Given(input) => return Ok(Ok(input.clone())),
            CompensationInput::FromOutcome(pointer) => pointer,
        };
        let bytes = match outcome.map(|outcome| &outcome.body) {
            Some(Body::Inline(bytes)) => Some(bytes.to_bytes()),
            Some(Body::Stored { body, .. }) => self.get_body(*body).await?,
            Some(Body::Handle(handle)) => serde_json::to_vec(&**handle).ok().map(Bytes::from),
            Some(Body::Empty | Body::Uncaptured { .. }) | None => None,
        };
        let Some(bytes) = bytes else { return Ok(Err("the outcome that holds its input was not kept")) };
        let bytes = outcome
            .filter(|outcome| is_wrapped(record, outcome))
            .and_then(|_| Answered::body_in(&bytes))
            .unwrap_or(bytes);
        let Ok(json) = serde_json::from_slice::<&RawValue>(&bytes) else {
            return Ok(Err("the outcome that should hold its input is no JSON"));
        };
        let found = pointed(json, pointer).map(|found| Bytes::from(found.get().to_owned()));
        Ok(found.ok_or("the outcome lacks its input"))
    }
}

/// Of an activity the whole answer is recorded, and what its inverse needs is in the answer's body. One with a status of
/// its own is recorded as its body is.
fn is_wrapped(record: &Record, outcome: &Outcome) -> bool {
    let surface = &record.about.surface;
    surface.strip_suffix(Surface::SHADOW).unwrap_or(surface) == activity::SURFACE && outcome.status == 0
}

fn compensation_of(record: &Record) -> Option<&Compensation> {
    match record.effect {
        // Whoever declares both has been clear enough about how to undo it.
        Effect::Compensatable | Effect::Irreversible => record.ties.as_ref()?.compensation.as_ref(),
        Effect::Pure | Effect::Idempotent | Effect::Unsafe => None,
    }
}
