//! Results come back to their sender as deliveries of their own: received as often as it takes, gone when acknowledged.

use std::{sync::Arc, time::Duration};

use hapax_core::{
    Outcome, WallMillis,
    identity::Tenant,
    task::{How, NotNow, Order, Task, TaskCommand, TaskId, TaskReply, TaskState, results_tag},
};
use hapax_store::{Cursor, Index};
use tokio::time::Instant;

use crate::{Queue, QueueError, lease::in_range};

/// One result that waits for its sender.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub order: Arc<Order>,
    pub outcome: Outcome,
    pub how: How,
    pub attempt: u32,
    pub wall: WallMillis,
}

const MOST_AT_ONCE: u64 = 256;

impl Queue {
    /// What the sender has not acknowledged, oldest first. Receiving changes nothing: a lost answer loses no result.
    pub async fn results(
        &self,
        tenant: &Tenant,
        sender: &str,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, QueueError> {
        crate::new_task::name("sender", sender)?;
        in_range("limit", limit as u64, (1, MOST_AT_ONCE))?;
        let tag = results_tag(tenant.as_str(), sender);
        let list = self.inner.dispatch.list(tag);
        let until = Instant::now().checked_add(wait);
        loop {
            let mut heard = std::pin::pin!(list.heard());
            heard.as_mut().enable();
            let found = self.waiting_results(tag, limit).await?;
            let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if !found.is_empty() || left.is_zero() {
                return Ok(found);
            }
            let _rung_or_over = tokio::time::timeout(self.pause(left), heard).await;
        }
    }

    async fn waiting_results(&self, tag: hapax_core::Tag, limit: usize) -> Result<Vec<Delivery>, QueueError> {
        let mut found = Vec::new();
        let mut after: Option<Cursor> = None;
        loop {
            let page = self.engine.scan(Index::Queue(tag), after.as_ref(), limit).await?;
            for record in &page.items {
                if let Some(task) = self.look(record).await?.record
                    && let Some(delivery) = delivery(&task)
                {
                    // Who joined it has the same sender and comes into this list behind it. Its own post does not do this:
                    // a crash between the two would leave them waiting.
                    if may_have_joiners(&task, delivery.how) {
                        self.end_joiners(&task).await?;
                    }
                    found.push(delivery);
                }
                if found.len() == limit {
                    return Ok(found);
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// The sender has it. Said again, it is so already.
    pub async fn ack(&self, tenant: &Tenant, id: TaskId) -> Result<(), QueueError> {
        let record = id.record(tenant.as_str());
        let (reply, task) = self.apply(&record, &TaskCommand::Ack { order: self.place() }).await?;
        match reply {
            TaskReply::Done { .. } => Ok(()),
            TaskReply::Refused(NotNow::Unknown) => Err(QueueError::Unknown(id)),
            TaskReply::Refused(_)
            | TaskReply::Known
            | TaskReply::AlreadyResolved
            | TaskReply::Leased(_)
            | TaskReply::Fenced
            | TaskReply::OtherResult => {
                // It may lag behind a result that is there.
                let before = task.map(|task| task.state);
                match self.roll(&record).await? {
                    Some(task) if Some(&task.state) != before.as_ref() => Box::pin(self.ack(tenant, id)).await,
                    Some(_) => Err(QueueError::NoResult(id)),
                    None => Err(QueueError::Unknown(id)),
                }
            }
        }
    }
}

fn may_have_joiners(task: &Task, how: How) -> bool {
    match how {
        How::Posted(_) | How::Forced | How::Expired => task.order.cache.is_some(),
        How::Replayed | How::Joined(_) => false,
    }
}

fn delivery(task: &Task) -> Option<Delivery> {
    match &task.state {
        TaskState::Resolved(resolved) if resolved.acked.is_none() => Some(Delivery {
            order: Arc::clone(&task.order),
            outcome: resolved.outcome.clone(),
            how: resolved.how,
            attempt: task.attempt,
            wall: resolved.wall,
        }),
        TaskState::Resolved(_)
        | TaskState::Sent { .. }
        | TaskState::Joined { .. }
        | TaskState::Queued { .. }
        | TaskState::Leased(_)
        | TaskState::Compacted { .. } => None,
    }
}
