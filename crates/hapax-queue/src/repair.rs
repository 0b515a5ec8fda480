//! Repairs: a person, or the retry gate, takes a lease back. The deciding record is fenced first.

use std::sync::Arc;

use hapax_core::{
    Id, Moment, Stamp, State,
    command::{Posture, Resolution, Resolve},
    identity::Tenant,
    record::End,
    task::{
        LeaseId, NotNow, RepairKind, RepairPosture, Skip, Task, TaskCommand, TaskId, TaskReply, TaskState, apply_task,
    },
};
use hapax_engine::Stepped;

use crate::{Queue, QueueError, new_task::short, queue::judge};

const TRIES: usize = 16;
const MOST_REASON: usize = 1024;

/// What is to be done to which lease, by whom and why.
pub(crate) struct Mend {
    pub(crate) lease: LeaseId,
    pub(crate) kind: RepairKind,
    pub(crate) actor: Arc<str>,
    pub(crate) reason: Arc<str>,
}

pub(crate) enum Mended {
    Done(Task),
    /// What the repair was judged by no longer holds: nothing was changed.
    Spared(Skip),
}

/// What became of a fence.
enum Fence {
    /// The operation that decides is fenced.
    Written,
    /// No operation decides: marking the task is the fence.
    Task,
    /// It has moved on, so look again.
    Moved,
    Spared(Skip),
}

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
        let mend = Mend { lease, kind, actor: actor.into(), reason: reason.into() };
        // A person has looked at it, and answers for it whatever its lease says.
        match self.mend_while(tenant, id, &mend, |_, _| Ok(())).await? {
            Mended::Done(task) => Ok(task),
            Mended::Spared(_) => Err(QueueError::NotRepaired { task: id, why: NotNow::NotInFlight }),
        }
    }

    /// As [`Queue::repair`], as long as `still` says so about the very version that is fenced: a renewal keeps the lease
    /// id, and its worker must not lose the lease that it has just been given.
    pub(crate) async fn mend_while(
        &self,
        tenant: &Tenant,
        id: TaskId,
        mend: &Mend,
        still: impl Fn(&Task, Stamp) -> Result<(), Skip> + Sync,
    ) -> Result<Mended, QueueError> {
        short("reason", &mend.reason, MOST_REASON)?;
        if let RepairKind::ForceError { message } = &mend.kind {
            crate::new_task::name("message", message)?;
            short("message", message, MOST_REASON)?;
        }
        let record = id.record(tenant.as_str());
        for _ in 0..TRIES {
            let Some(task) = self.roll(&record).await? else { return Err(QueueError::Unknown(id)) };
            let command = mend.command(self.place());
            // The rules are asked before anything is fenced.
            match apply_task(Some(&task), &command, self.engine.moment()).reply {
                TaskReply::Done { already: true } => return Ok(Mended::Done(task)),
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
            let marked = match self.fence(&task, mend, &still).await? {
                Fence::Moved => continue,
                Fence::Spared(reason) => return Ok(Mended::Spared(reason)),
                Fence::Written => Ok(self.apply(&record, &command).await?),
                Fence::Task => self.mark_while(&record, &command, &still).await?,
            };
            let (reply, after) = match marked {
                Ok(marked) => marked,
                Err(reason) => return Ok(Mended::Spared(reason)),
            };
            self.ring_for(after.as_ref());
            // Otherwise somebody has rolled it forward before us, or was faster: the next look tells.
            if let (TaskReply::Done { .. }, Some(task)) = (reply, after) {
                return Ok(Mended::Done(task));
            }
        }
        Err(QueueError::Busy(id))
    }

    /// Marks a task that no operation decides about, if `still` holds for the version that is replaced.
    async fn mark_while(
        &self,
        record: &Id,
        command: &TaskCommand,
        still: &(impl Fn(&Task, Stamp) -> Result<(), Skip> + Sync),
    ) -> Result<Result<(TaskReply, Option<Task>), Skip>, QueueError> {
        let mut rules = judge(command);
        let marked = self.engine.decide(record, |task: Option<&Task>, moment: Moment| {
            match task.map_or(Ok(()), |task| still(task, moment.now)) {
                Err(reason) => (None, Err(reason)),
                Ok(()) => {
                    let (write, said) = rules(task, moment);
                    (write, Ok(said))
                }
            }
        });
        Ok(marked.await?)
    }

    /// Fences the operation that decides, if `still` holds for the version that is fenced.
    async fn fence(
        &self,
        task: &Task,
        mend: &Mend,
        still: &(impl Fn(&Task, Stamp) -> Result<(), Skip> + Sync),
    ) -> Result<Fence, QueueError> {
        let (Some(cache), TaskState::Leased(leased)) = (task.order.cache, &task.state) else { return Ok(Fence::Task) };
        let decider = self.engine.operation(&cache).await?;
        let Some(operation) = &decider.record else { return Ok(Fence::Task) };
        let pending = match &operation.state {
            State::Pending(pending) if operation.token() == leased.token => pending,
            State::Pending(_)
            | State::Committed(_)
            | State::Rejected(_)
            | State::Open(_)
            | State::InDoubt(_)
            | State::Tombstone(_) => {
                // What is decided otherwise is rolled forward; what names another attempt cannot be this lease's. What was
                // opened by time alone has nothing left to fence: its next attempt does that.
                let ours = operation.token() == leased.token;
                // An attempt of the same number with another nonce is another task's: a lease that was read from a log.
                let older = !ours && operation.attempt.number <= leased.token.attempt;
                let opened_by_time = ours && is_open_by_time(operation);
                return Ok(if older || opened_by_time { Fence::Task } else { Fence::Moved });
            }
        };
        // A renewal is written here first, and moves the version: what is judged is what is fenced.
        if let Err(reason) = still(&task.leased_as(&pending.lease), decider.now) {
            return Ok(Fence::Spared(reason));
        }
        let resolve = Resolve {
            version: decider.version,
            resolution: Resolution::Open(mend.posture()),
            actor: Arc::clone(&mend.actor),
            reason: mend.kind.to_fence(&mend.reason).into(),
        };
        match self.engine.resolve(&cache, resolve).await? {
            Stepped::Done(_) => Ok(Fence::Written),
            Stepped::Fenced | Stepped::Conflict(_) | Stepped::Refused(_) => Ok(Fence::Moved),
        }
    }
}

/// Whether an operation let go of its attempt without anybody having said so.
fn is_open_by_time(operation: &hapax_core::Record) -> bool {
    matches!(operation.state, State::Open(_))
        && matches!(operation.attempt.end, End::Lapsed { .. } | End::FailedUnknown)
}

impl Mend {
    fn command(&self, order: u64) -> TaskCommand {
        TaskCommand::Repair {
            lease: self.lease,
            kind: self.kind.clone(),
            actor: Arc::clone(&self.actor),
            reason: Arc::clone(&self.reason),
            order,
        }
    }

    const fn posture(&self) -> Posture {
        match &self.kind {
            RepairKind::Requeue { posture: RepairPosture::Idempotent, .. } => Posture::Idempotent,
            RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, .. } | RepairKind::ForceError { .. } => {
                Posture::OperatorAccepted
            }
        }
    }
}
