//! Sending: the task first, then who leads under its key, then into the queue. A crash in between is rolled forward.

use hapax_core::{
    Id,
    identity::Tenant,
    record::Record,
    task::{
        How, KeySlot, Leader, NewTask as Command, NotNow, Task, TaskCommand, TaskId, TaskReply, TaskState,
        apply_key_slot, queue_tag, results_tag,
    },
};

use crate::{NewTask, Queue, QueueError, Sent, queue::judge};

/// How often a send goes round when others move what it looks at.
const TRIES: usize = 16;

impl Queue {
    /// Sends a task. The same id with the same content is the same task, and answers as the first time.
    pub async fn send(&self, tenant: &Tenant, task: NewTask) -> Result<Sent, QueueError> {
        let moment = self.engine.moment();
        let id = task.id;
        let order = task.checked(tenant, &self.inner.settings, moment, |task| self.cache_of_new(tenant, task))?;
        self.has_room(tenant).await?;
        let (record, about) = (id.record(tenant.as_str()), self.about(tenant)?);
        let command = TaskCommand::Send(Command { about, order: order.into(), place: self.place() });
        let (reply, task) = self.engine.decide_new(&record, judge(&command)).await?;
        let again = match reply {
            TaskReply::Done { .. } => false,
            TaskReply::Known => true,
            TaskReply::AlreadyResolved => return Ok(Sent::AlreadyResolved),
            TaskReply::Refused(_) | TaskReply::Leased(_) | TaskReply::Fenced | TaskReply::OtherResult => {
                return Err(QueueError::OtherContent(id));
            }
        };
        let task = match task {
            Some(task) if matches!(task.state, TaskState::Sent { .. } | TaskState::Joined { .. }) => {
                self.roll(&record).await?.ok_or(QueueError::KeyMismatch)?
            }
            Some(task) => task,
            None => return Err(QueueError::Busy(id)),
        };
        Ok(self.answer(&task, again))
    }

    fn answer(&self, task: &Task, again: bool) -> Sent {
        match &task.state {
            TaskState::Queued { .. } | TaskState::Sent { .. } => {
                self.inner.dispatch.ring(queue_tag(&task.about.tenant, &task.order.recipient.key));
                Sent::Queued { again }
            }
            TaskState::Leased(_) => Sent::Queued { again },
            TaskState::Joined { leader } => Sent::Joined { leader: *leader, again },
            TaskState::Resolved(resolved) => match resolved.how {
                How::Replayed => Sent::Replayed { outcome: resolved.outcome.clone(), again },
                How::Joined(leader) => Sent::Joined { leader, again },
                How::Posted(_) | How::Forced | How::Expired => Sent::Queued { again },
            },
            TaskState::Compacted { .. } => Sent::AlreadyResolved,
        }
    }

    /// Asks the task's key who leads, and puts it into the queue or behind its leader. `None`: its payload is not the one
    /// that the key was used for, so it never was.
    pub(crate) async fn admit(&self, record: &Id) -> Result<Option<Task>, QueueError> {
        let mut over = None;
        let mut id = TaskId([0; 16]);
        for _ in 0..TRIES {
            let looked = self.look(record).await?;
            let Some(task) = looked.record.clone() else { return Ok(None) };
            id = task.order.id;
            let (TaskState::Sent { .. }, Some(cache)) = (&task.state, task.order.cache) else { return Ok(Some(task)) };
            let decider = self.engine.operation(&cache).await?;
            if let Some(decider) = &decider.record {
                if differs(decider, &task) {
                    return self.take_back(record, looked.version).await;
                }
                if let Some(outcome) = self.cached(decider).await? {
                    let command = TaskCommand::Resolve { how: How::Replayed, outcome, order: self.place() };
                    let (_, task) = self.apply_from(record, looked, &command).await?;
                    self.tell_result(task.as_ref());
                    return Ok(task);
                }
            }
            let leader = match self.claim(&task, cache, over).await? {
                Leader::Itself => {
                    let (_, task) =
                        self.apply_from(record, looked, &TaskCommand::Enqueue { place: place_of(&task) }).await?;
                    return Ok(task);
                }
                Leader::Other(leader) => leader,
            };
            match self.roll_by_decider(&leader.record(&task.about.tenant)).await? {
                Some(first) if first.is_live() => {
                    if !first.order.print.matches(&task.order.print) {
                        return self.take_back(record, looked.version).await;
                    }
                    let (reply, task) = self.apply_from(record, looked, &TaskCommand::Join { leader }).await?;
                    match (reply, task) {
                        (TaskReply::Refused(NotNow::NotQueued), Some(task)) | (TaskReply::Done { .. }, Some(task)) => {
                            return Ok(Some(task));
                        }
                        (_, _) => {}
                    }
                }
                Some(_) | None => over = Some(leader),
            }
        }
        Err(QueueError::Busy(id))
    }

    pub(crate) async fn claim(&self, task: &Task, cache: Id, over: Option<TaskId>) -> Result<Leader, QueueError> {
        let (id, slot) = (task.order.id, slot_of(&cache));
        let claimed =
            self.engine.decide(&slot, |slot: Option<&KeySlot>, _| apply_key_slot(slot, &task.about, id, over));
        Ok(claimed.await?)
    }

    /// A send that was refused leaves nothing. Whoever moved the task meanwhile has seen the same.
    async fn take_back(&self, record: &Id, version: hapax_core::Version) -> Result<Option<Task>, QueueError> {
        self.engine.remove(record, version).await?;
        Ok(None)
    }

    /// The recorded result, if there is one.
    pub(crate) async fn cached(&self, decider: &Record) -> Result<Option<hapax_core::Outcome>, QueueError> {
        match hapax_core::final_answer(decider) {
            Some(hapax_core::Replay { answer: hapax_core::Recorded::Whole(outcome), .. }) => {
                Ok(Some(self.engine.with_body(outcome).await?))
            }
            Some(_) | None => Ok(None),
        }
    }

    pub(crate) fn tell_result(&self, task: Option<&Task>) {
        if let Some(task) = task
            && matches!(task.state, TaskState::Resolved(_))
        {
            self.inner.dispatch.ring(results_tag(&task.about.tenant, &task.order.sender.key));
        }
    }
}

const fn place_of(task: &Task) -> u64 {
    match task.state {
        TaskState::Sent { order } | TaskState::Queued { order } => order,
        TaskState::Joined { .. } | TaskState::Leased(_) | TaskState::Resolved(_) | TaskState::Compacted { .. } => 0,
    }
}

pub(crate) fn differs(decider: &Record, task: &Task) -> bool {
    decider.guard().is_some_and(|guard| !guard.matches(&task.order.print))
}

/// Where it is written who leads under a key.
pub(crate) fn slot_of(cache: &Id) -> Id {
    Id::derived("hapax.a2a.slot.v1", &[&cache.0])
}
