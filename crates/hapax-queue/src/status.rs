//! What there is, page by page, for people and programs.

use hapax_core::{
    Millis, Stamp,
    identity::Tenant,
    task::{LeaseId, Task, TaskId, TaskState, TaskStateName, tenant_tag},
};
use hapax_store::{Cursor, Index, Kind};

use crate::{Queue, QueueError};

/// Which tasks are wanted.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub state: Option<TaskStateName>,
    pub kind: Option<String>,
    /// Only tasks that this peer sends or receives.
    pub peer: Option<String>,
    /// In flight, and not renewed for so long.
    pub min_lease_age: Option<Millis>,
    /// Waiting beyond their deadline.
    pub overdue: bool,
}

/// One task as it stands.
#[derive(Clone, Debug)]
pub struct Status {
    pub task: Task,
    pub state: TaskStateName,
    pub lease_id: Option<LeaseId>,
    pub lease_age: Option<Millis>,
    pub overdue: bool,
}

#[derive(Clone, Debug)]
pub struct StatusPage {
    pub items: Vec<Status>,
    pub next: Option<Cursor>,
}

/// How many records one call looks through at most, so that a rare filter cannot hold it up.
const MOST_LOOKED_AT: usize = 4_096;

impl Queue {
    /// One task, rolled forward.
    pub async fn task(&self, tenant: &Tenant, id: TaskId) -> Result<Status, QueueError> {
        let record = id.record(tenant.as_str());
        let task = self.roll(&record).await?.ok_or(QueueError::Unknown(id))?;
        let now = self.look(&record).await?.now;
        Ok(Status::of(task, now))
    }

    /// Tasks of one tenant, the least recently changed first.
    pub async fn status(
        &self,
        tenant: &Tenant,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<StatusPage, QueueError> {
        let Some(tag) = tenant_tag(tenant) else { return Ok(StatusPage { items: Vec::new(), next: None }) };
        let limit = limit.clamp(1, 200);
        let mut items = Vec::new();
        let mut after = after.cloned();
        let mut looked_at = 0;
        loop {
            // No more than are wanted, so that the cursor never passes one that was not told.
            let room = limit - items.len();
            let page = self.engine.scan(Index::TenantAge(tag), after.as_ref(), room).await?;
            looked_at += page.items.len();
            for record in &page.items {
                items.extend(self.one(record, filter).await?);
            }
            match page.next {
                Some(next) if items.len() < limit && looked_at < MOST_LOOKED_AT => after = Some(next),
                next => return Ok(StatusPage { items, next }),
            }
        }
    }

    async fn one(&self, record: &hapax_core::Id, filter: &Filter) -> Result<Option<Status>, QueueError> {
        let snapshot = self.engine.store().get(record).await.map_err(hapax_engine::EngineError::from)?;
        // Slots of keys are counted beside the tasks.
        if snapshot.record.is_none_or(|envelope| envelope.kind != Kind::TASK) {
            return Ok(None);
        }
        let Some(task) = self.roll(record).await? else { return Ok(None) };
        let status = Status::of(task, snapshot.now);
        Ok(filter.takes(&status).then_some(status))
    }
}

impl Status {
    #[must_use]
    pub fn of(task: Task, now: Stamp) -> Self {
        let lease_age = match &task.state {
            TaskState::Leased(leased) => leased.age(now),
            TaskState::Sent { .. }
            | TaskState::Joined { .. }
            | TaskState::Queued { .. }
            | TaskState::Resolved(_)
            | TaskState::Compacted { .. } => None,
        };
        Self { state: task.state_name(now), lease_id: task.lease_id(), lease_age, overdue: task.is_overdue(now), task }
    }
}

impl Filter {
    fn takes(&self, status: &Status) -> bool {
        let order = &status.task.order;
        self.state.is_none_or(|state| state == status.state)
            && self.kind.as_ref().is_none_or(|kind| **kind == *order.kind)
            && self.peer.as_ref().is_none_or(|peer| **peer == *order.sender.key || **peer == *order.recipient.key)
            && self.min_lease_age.is_none_or(|least| status.lease_age.is_some_and(|age| age >= least))
            && (!self.overdue || status.overdue)
    }
}
