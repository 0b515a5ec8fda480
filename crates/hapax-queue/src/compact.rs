//! Compaction: of what is resolved, delivered and acknowledged only the id and the digest stay. The cache is not touched.

use hapax_core::{
    Id,
    identity::Tenant,
    task::{KeySlot, Task, TaskCommand, TaskReply, TaskState, compactable_tag, compactable_tag_of, joined_tag},
};
use hapax_engine::Looked;
use hapax_store::{Cursor, Index, Kind};

use crate::{Queue, QueueError, send::slot_of};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compacted {
    pub looked_at: u64,
    pub compacted: u64,
    /// Left for the next time: somebody who joined them has not ended yet.
    pub kept: u64,
}

const PAGE: usize = 256;

impl Queue {
    /// Compacts what can be, of one tenant or of all. Nothing to do: nothing is written.
    pub async fn compact(&self, tenant: Option<&Tenant>) -> Result<Compacted, QueueError> {
        let tag = tenant.map_or_else(compactable_tag, |tenant| compactable_tag_of(tenant.as_str()));
        let mut done = Compacted::default();
        let mut after: Option<Cursor> = None;
        loop {
            let page = self.engine.scan(Index::Queue(tag), after.as_ref(), PAGE).await?;
            for record in &page.items {
                done.looked_at += 1;
                match self.compact_one(record).await? {
                    true => done.compacted += 1,
                    false => done.kept += 1,
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(done),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Whether a tenant has anything that may be compacted.
    pub async fn has_compactable(&self, tenant: &Tenant) -> Result<bool, QueueError> {
        let page = self.engine.scan(Index::Queue(compactable_tag_of(tenant.as_str())), None, 1).await?;
        Ok(!page.items.is_empty())
    }

    async fn compact_one(&self, record: &Id) -> Result<bool, QueueError> {
        let looked = self.look(record).await?;
        let Some(task) = &looked.record else { return Ok(false) };
        let ready = matches!(&task.state, TaskState::Resolved(resolved) if resolved.acked.is_some());
        if !ready || !self.end_joiners(task).await? {
            return Ok(false);
        }
        if let Some(cache) = task.order.cache {
            let slot = slot_of(&cache);
            let found: Looked<KeySlot> = self.engine.look_at(&slot).await?;
            // A task that takes the slot meanwhile moves its version, and keeps it.
            if found.record.is_some_and(|slot| slot.leader == task.order.id) {
                self.engine.remove(&slot, found.version).await?;
            }
        }
        let (reply, _) = self.apply(record, &TaskCommand::Compact).await?;
        Ok(matches!(reply, TaskReply::Done { .. }))
    }

    /// Whoever joined a resolved task ends as it did; false if one of them has not. One that joins from here on finds it
    /// resolved, or gone.
    pub(crate) async fn end_joiners(&self, task: &Task) -> Result<bool, QueueError> {
        let tag = joined_tag(&task.about.tenant, &task.order.id);
        let mut after: Option<Cursor> = None;
        let mut all = true;
        loop {
            let page = self.engine.scan(Index::Group(tag), after.as_ref(), PAGE).await?;
            for joiner in &page.items {
                let joined = self.roll(joiner).await?;
                all &= !joined.is_some_and(|joined| joined.state == TaskState::Joined { leader: task.order.id });
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// Ends overdue tasks whose policy says so. How many.
    pub async fn expire_overdue(&self) -> Result<u64, QueueError> {
        let until = self.engine.operation(&Id([0; 32])).await?.now;
        let mut ended = 0;
        let mut after: Option<Cursor> = None;
        loop {
            let page = self.engine.scan(Index::Expiry { until }, after.as_ref(), PAGE).await?;
            for record in &page.items {
                let snapshot = self.engine.store().get(record).await.map_err(hapax_engine::EngineError::from)?;
                if snapshot.record.is_some_and(|envelope| envelope.kind == Kind::TASK && envelope.gone.is_none()) {
                    ended += u64::from(self.expire(record).await?);
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(ended),
            }
            tokio::task::yield_now().await;
        }
    }
}
