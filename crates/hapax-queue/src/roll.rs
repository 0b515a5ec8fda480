//! Whoever reads a task rolls it forward.

use hapax_core::{
    Id, Outcome,
    task::{Beside, How, Next, Task, TaskCommand, TaskState, forward, leased_tag, queue_tag, released, task_of_owner},
};
use hapax_store::{Cursor, Index};

use crate::{Queue, QueueError};

/// How many steps a task can lag behind: more than any crash can leave.
const STEPS: usize = 8;
/// How long a chain of tasks that joined each other is followed at once.
const CHAIN: usize = 4;
/// How many leased tasks are looked up at once.
const PAGE: usize = 256;

impl Queue {
    /// The task as it should be, and is from now on. `None`: there is none.
    pub(crate) async fn roll(&self, record: &Id) -> Result<Option<Task>, QueueError> {
        self.roll_chain(record, CHAIN).await
    }

    /// Rolls forward whatever is listed as leased. A post or a repair that died after the deciding write leaves its task
    /// in that list alone, where neither its sender nor a worker looks. How many had been left behind.
    pub async fn roll_forward(&self) -> Result<u64, QueueError> {
        let mut moved = 0;
        let mut after: Option<Cursor> = None;
        loop {
            let page = self.engine.scan(Index::Queue(leased_tag()), after.as_ref(), PAGE).await?;
            for record in &page.items {
                moved += u64::from(self.roll_leased(record).await?);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(moved),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Whether a task that was listed as leased turned out to be something else.
    async fn roll_leased(&self, record: &Id) -> Result<bool, QueueError> {
        match self.roll(record).await {
            Ok(task) => Ok(task.is_some_and(|task| !matches!(task.state, TaskState::Leased(_)))),
            // Others are at it right now, so it is not forgotten; it must not hold up the rest.
            Err(QueueError::Busy(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn roll_chain(&self, record: &Id, chain: usize) -> Result<Option<Task>, QueueError> {
        let mut last = None;
        for _ in 0..STEPS {
            let looked = self.look(record).await?;
            let Some(task) = looked.record.clone() else { return Ok(None) };
            let command = match self.next_for(&task, chain).await? {
                Next::Nothing => return Ok(Some(task)),
                Next::Admit => {
                    if self.admit(record).await?.is_none() {
                        return Ok(None);
                    }
                    continue;
                }
                Next::Command(command) => command,
            };
            last = Some(task.order.id);
            if self.frees(&task, &command).await? {
                continue;
            }
            let (_, after) = self.apply_from(record, looked, &command).await?;
            self.ring_for(after.as_ref());
        }
        Err(last.map_or(QueueError::UnfitPolicy("it loops"), QueueError::Busy))
    }

    /// As [`Queue::roll`], but only as far as the deciding operation goes.
    pub(crate) async fn roll_by_decider(&self, record: &Id) -> Result<Option<Task>, QueueError> {
        for _ in 0..STEPS {
            let looked = self.look(record).await?;
            let Some(task) = looked.record.clone() else { return Ok(None) };
            if !matches!(task.state, TaskState::Queued { .. } | TaskState::Leased(_)) {
                return Ok(Some(task));
            }
            match self.next_for(&task, 0).await? {
                Next::Nothing | Next::Admit => return Ok(Some(task)),
                Next::Command(command) => {
                    if self.frees(&task, &command).await? {
                        continue;
                    }
                    let (_, after) = self.apply_from(record, looked, &command).await?;
                    self.ring_for(after.as_ref());
                }
            }
        }
        Ok(self.look(record).await?.record)
    }

    /// Whether a task was about to join one that ended for want of time, before anybody began it. The attempt that still
    /// stands in its name is a lease that died, or lost, between its two writes: nobody was handed it, and it is given back.
    /// Otherwise whoever uses the key joins that end for ever.
    async fn frees(&self, task: &Task, command: &TaskCommand) -> Result<bool, QueueError> {
        let (TaskCommand::Join { leader }, Some(cache)) = (command, task.order.cache) else { return Ok(false) };
        let found = self.look(&leader.record(&task.about.tenant)).await?.record;
        let expired = found.is_some_and(
            |task| matches!(&task.state, TaskState::Resolved(resolved) if matches!(resolved.how, How::Expired)),
        );
        if !expired {
            return Ok(false);
        }
        let Some(decider) = self.engine.operation(&cache).await?.record else { return Ok(true) };
        if task_of_owner(&decider.attempt.owner) == Some(*leader) {
            let _either_way = self.engine.fail(&cache, decider.token(), released()).await?;
            self.inner.dispatch.ring(queue_tag(&task.about.tenant, &task.order.recipient.key));
        }
        Ok(true)
    }

    /// What has to be done to a task, without doing it.
    pub(crate) async fn next_for(&self, task: &Task, chain: usize) -> Result<Next, QueueError> {
        match (&task.state, task.order.cache) {
            (TaskState::Queued { .. } | TaskState::Leased(_), Some(cache)) => {
                let decider = self.engine.operation(&cache).await?;
                let next = forward(task, Beside::Decider(decider.record.as_ref()), self.place());
                self.with_bodies(next).await
            }
            (TaskState::Joined { leader }, _) => {
                let leader = leader.record(&task.about.tenant);
                let found = match chain {
                    0 => self.look(&leader).await?.record,
                    _ => Box::pin(self.roll_chain(&leader, chain - 1)).await?,
                };
                Ok(forward(task, Beside::Leader(found.as_ref()), self.place()))
            }
            (
                TaskState::Sent { .. }
                | TaskState::Queued { .. }
                | TaskState::Leased(_)
                | TaskState::Resolved(_)
                | TaskState::Compacted { .. },
                _,
            ) => Ok(forward(task, Beside::Decider(None), 0)),
        }
    }

    /// A long result lies beside its operation; in a task it lies inline.
    async fn with_bodies(&self, next: Next) -> Result<Next, QueueError> {
        match next {
            Next::Command(TaskCommand::Post { token, outcome, order }) => {
                let outcome: Outcome = self.engine.with_body(outcome).await?;
                Ok(Next::Command(TaskCommand::Post { token, outcome, order }))
            }
            other @ (Next::Nothing | Next::Admit | Next::Command(_)) => Ok(other),
        }
    }

    pub(crate) fn ring_for(&self, task: Option<&Task>) {
        self.tell_result(task);
        if let Some(task) = task
            && matches!(task.state, TaskState::Queued { .. })
        {
            self.inner.dispatch.ring(queue_tag(&task.about.tenant, &task.order.recipient.key));
        }
    }
}
