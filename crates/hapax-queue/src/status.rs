//! What there is, page by page, for people and programs.

use hapax_core::{
    Id, Millis, Stamp,
    identity::Tenant,
    task::{LeaseId, Task, TaskId, TaskState, TaskStateName, leased_tag_of, tenant_tag, waiting_tag_of},
};
use hapax_engine::EngineError;
use hapax_store::{Cursor, Envelope, Index, Kind, StoreError};

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

    /// Tasks of one tenant: what is in flight, then what waits, then all else. Of compacted ones, which are many and say
    /// little, only where they are asked for.
    pub async fn status(
        &self,
        tenant: &Tenant,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<StatusPage, QueueError> {
        self.status_for(tenant, filter, after, limit, |_| true).await
    }

    /// As [`Queue::status`], of what `seen` says may be seen. Each call looks through a bounded number of tasks, whoever's
    /// they are: a page with few or none of them can have a next one.
    pub async fn status_for(
        &self,
        tenant: &Tenant,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
        seen: impl Fn(&Status) -> bool,
    ) -> Result<StatusPage, QueueError> {
        let limit = limit.clamp(1, 200);
        let mut items = Vec::new();
        let mut looked_at = 0;
        let (mut place, mut after) = match after {
            None => (Some(filter.first_place()), None),
            Some(cursor) => Place::opened(cursor).ok_or_else(|| bad_cursor(self))?,
        };
        while let Some(here) = place {
            let Some(index) = here.index(tenant) else { break };
            // No more than are wanted, so that the cursor never passes one that was not told.
            let page = self.engine.scan(index, after.as_ref(), limit - items.len()).await?;
            looked_at += page.items.len();
            for record in &page.items {
                items.extend(self.one(record, tenant, here, filter).await?.filter(|status| seen(status)));
            }
            (place, after) = match page.next {
                Some(next) => (Some(here), Some(next)),
                None => (filter.place_after(here), None),
            };
            if items.len() >= limit || looked_at >= MOST_LOOKED_AT {
                break;
            }
        }
        Ok(StatusPage { items, next: place.map(|place| place.closed(after.as_ref())) })
    }

    async fn one(
        &self,
        record: &Id,
        tenant: &Tenant,
        place: Place,
        filter: &Filter,
    ) -> Result<Option<Status>, QueueError> {
        let snapshot = self.engine.store().get(record).await.map_err(EngineError::from)?;
        // Slots of keys are counted beside the tasks.
        let Some(envelope) = snapshot.record.filter(|envelope| envelope.kind == Kind::TASK) else { return Ok(None) };
        if place == Place::Rest && is_listed_elsewhere(&envelope, tenant) {
            return Ok(None);
        }
        let Some(task) = self.roll(record).await? else { return Ok(None) };
        let status = Status::of(task, snapshot.now);
        Ok(filter.takes(&status).then_some(status))
    }
}

/// Where the tasks of a tenant are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    InFlight,
    Waiting,
    Rest,
}

impl Place {
    const fn letter(self) -> u8 {
        match self {
            Self::InFlight => b'L',
            Self::Waiting => b'W',
            Self::Rest => b'R',
        }
    }

    fn index(self, tenant: &Tenant) -> Option<Index> {
        match self {
            Self::InFlight => Some(Index::Queue(leased_tag_of(tenant.as_str()))),
            Self::Waiting => Some(Index::Queue(waiting_tag_of(tenant.as_str()))),
            Self::Rest => tenant_tag(tenant).map(Index::TenantAge),
        }
    }

    fn closed(self, after: Option<&Cursor>) -> Cursor {
        let rest = after.map_or(&[][..], |cursor| &cursor.0);
        Cursor([&[self.letter()], rest].concat().into())
    }

    fn opened(cursor: &Cursor) -> Option<(Option<Self>, Option<Cursor>)> {
        let (letter, rest) = cursor.0.split_first()?;
        let place = [Self::InFlight, Self::Waiting, Self::Rest].into_iter().find(|place| place.letter() == *letter)?;
        Some((Some(place), (!rest.is_empty()).then(|| Cursor(cursor.0.slice(1..)))))
    }
}

/// As a store says it of a cursor that it never gave.
fn bad_cursor(queue: &Queue) -> QueueError {
    let store = queue.engine.store().name();
    EngineError::Store(StoreError::Unsupported { store, reason: "this cursor".into() }).into()
}

fn is_listed_elsewhere(envelope: &Envelope, tenant: &Tenant) -> bool {
    let tags = [leased_tag_of(tenant.as_str()), waiting_tag_of(tenant.as_str())];
    envelope.entries.iter().any(|entry| tags.contains(&entry.tag))
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
    /// Where what is wanted is looked for first.
    const fn first_place(&self) -> Place {
        match self.state {
            None | Some(TaskStateName::Leased | TaskStateName::Stale) => Place::InFlight,
            Some(TaskStateName::Queued) => Place::Waiting,
            Some(
                TaskStateName::Joined
                | TaskStateName::ResultPending
                | TaskStateName::Delivered
                | TaskStateName::Compacted,
            ) => Place::Rest,
        }
    }

    const fn place_after(&self, place: Place) -> Option<Place> {
        match (place, self.state) {
            (Place::InFlight, None) => Some(Place::Waiting),
            (Place::Waiting, None) => Some(Place::Rest),
            (Place::InFlight | Place::Waiting, Some(_)) | (Place::Rest, _) => None,
        }
    }

    fn takes(&self, status: &Status) -> bool {
        let order = &status.task.order;
        self.state.map_or(status.state != TaskStateName::Compacted, |state| state == status.state)
            && self.kind.as_ref().is_none_or(|kind| **kind == *order.kind)
            && self.peer.as_ref().is_none_or(|peer| **peer == *order.sender.key || **peer == *order.recipient.key)
            && self.min_lease_age.is_none_or(|least| status.lease_age.is_some_and(|age| age >= least))
            && (!self.overdue || status.overdue)
    }
}
