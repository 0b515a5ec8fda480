//! Repairs: a person, or the retry gate, takes a lease back. The deciding record is fenced first.

use std::sync::Arc;

use hapax_core::{
    State,
    command::{Posture, Resolution, Resolve},
    identity::Tenant,
    task::{LeaseId, NotNow, RepairKind, RepairPosture, Task, TaskCommand, TaskId, TaskReply, TaskState, apply_task},
};
use hapax_engine::Stepped;

use crate::{Queue, QueueError, new_task::short};

const TRIES: usize = 16;
const MOST_REASON: usize = 1024;

impl Queue {
    /// Takes a lease back: the task goes to the back of its queue, or ends with an error. Whoever held it is refused from
    /// then on. Said again, it is so already.
    pub async fn repair(
        &self,
        tenant: &Tenant,
        id: TaskId,
        lease: LeaseId,
        kind: RepairKind,
        actor: &str,
        reason: &str,
    ) -> Result<Task, QueueError> {
        short("reason", reason, MOST_REASON)?;
        if let RepairKind::ForceError { message } = &kind {
            crate::new_task::name("message", message)?;
            short("message", message, MOST_REASON)?;
        }
        let record = id.record(tenant.as_str());
        let (actor, reason): (Arc<str>, Arc<str>) = (actor.into(), reason.into());
        for _ in 0..TRIES {
            let Some(task) = self.roll(&record).await? else { return Err(QueueError::Unknown(id)) };
            let command = TaskCommand::Repair {
                lease,
                kind: kind.clone(),
                actor: Arc::clone(&actor),
                reason: Arc::clone(&reason),
                order: self.place(),
            };
            // The rules are asked before anything is fenced.
            match apply_task(Some(&task), &command, self.engine.moment()).reply {
                TaskReply::Done { already: true } => return Ok(task),
                TaskReply::Done { already: false } => {}
                TaskReply::Refused(why) => return Err(QueueError::NotRepaired { task: id, why }),
                TaskReply::Known
                | TaskReply::AlreadyResolved
                | TaskReply::Leased(_)
                | TaskReply::Fenced
                | TaskReply::OtherResult => {
                    return Err(QueueError::NotRepaired { task: id, why: NotNow::NotInFlight });
                }
            }
            if !self.fence(&task, &kind, &actor, &reason).await? {
                continue;
            }
            let (reply, after) = self.apply(&record, &command).await?;
            self.ring_for(after.as_ref());
            match (reply, after) {
                (TaskReply::Done { .. }, Some(task)) => return Ok(task),
                // Somebody has rolled it forward before us, or was faster: the next look tells.
                (_, _) => {}
            }
        }
        Err(QueueError::Busy(id))
    }

    /// Fences the operation that decides. False: it has moved on, so look again.
    async fn fence(
        &self,
        task: &Task,
        kind: &RepairKind,
        actor: &Arc<str>,
        reason: &Arc<str>,
    ) -> Result<bool, QueueError> {
        let (Some(cache), TaskState::Leased(leased)) = (task.order.cache, &task.state) else { return Ok(true) };
        let decider = self.engine.operation(&cache).await?;
        let Some(operation) = &decider.record else { return Ok(true) };
        if !matches!(operation.state, State::Pending(_)) || operation.token() != leased.token {
            // What is decided otherwise is rolled forward; what names another attempt cannot be this lease's.
            return Ok(operation.token() != leased.token && operation.attempt.number < leased.token.attempt);
        }
        let posture = match kind {
            RepairKind::Requeue { posture: RepairPosture::Idempotent, .. } => Posture::Idempotent,
            RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, .. } | RepairKind::ForceError { .. } => {
                Posture::OperatorAccepted
            }
        };
        let resolve = Resolve {
            version: decider.version,
            resolution: Resolution::Open(posture),
            actor: Arc::clone(actor),
            reason: kind.to_fence(reason).into(),
        };
        match self.engine.resolve(&cache, resolve).await? {
            Stepped::Done(_) => Ok(true),
            Stepped::Fenced | Stepped::Conflict(_) | Stepped::Refused(_) => Ok(false),
        }
    }
}
