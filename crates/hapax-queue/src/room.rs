//! Room for more tasks: of all tenants together, and of each. Nobody's flood fills the queue for the others.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use hapax_core::{Stamp, Tag, identity::Tenant, task::tenant_tag};
use parking_lot::Mutex;

use crate::{Queue, QueueError};

/// How long a count is good for.
const COUNT_KEPT_MS: u64 = 1_000;
/// How many are sent at most before it is counted again, so that several processes overshoot by little.
const MOST_UNCOUNTED: u64 = 4_096;
/// How many tenants' counts are remembered.
const MOST_TENANTS: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct Room {
    all: Left,
    tenants: Mutex<HashMap<Tenant, Arc<Left>>>,
}

/// What is known of the room that is left.
#[derive(Debug, Default)]
struct Left {
    left: AtomicU64,
    asked: AtomicU64,
}

impl Room {
    fn of(&self, tenant: &Tenant) -> Arc<Left> {
        let mut tenants = self.tenants.lock();
        if tenants.len() >= MOST_TENANTS && !tenants.contains_key(tenant) {
            tenants.clear();
        }
        Arc::clone(tenants.entry(tenant.clone()).or_default())
    }
}

impl Queue {
    pub(crate) async fn has_room(&self, tenant: &Tenant) -> Result<(), QueueError> {
        let most = self.inner.settings.share();
        if let Some(tag) = tenant_tag(tenant)
            && !self.fits(&self.inner.room.of(tenant), tag, most).await?
        {
            return Err(QueueError::TenantFull { most });
        }
        let most = self.inner.settings.max_tasks;
        let all = Tag::surface(&self.inner.surface);
        if self.fits(&self.inner.room.all, all, most).await? { Ok(()) } else { Err(QueueError::Full { most }) }
    }

    /// Counts are asked for now and then; in between each send takes one of what was left.
    async fn fits(&self, known: &Left, tag: Tag, most: u64) -> Result<bool, QueueError> {
        let taken = known.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        let now = self.engine.moment().now;
        if taken.is_ok() && now.since(Stamp(known.asked.load(Relaxed))).0 < COUNT_KEPT_MS {
            return Ok(true);
        }
        let usage = self.engine.usage(tag).await?;
        known.asked.store(now.0, Relaxed);
        let left = most.saturating_sub(usage.records).min(MOST_UNCOUNTED);
        known.left.store(left.saturating_sub(1), Relaxed);
        Ok(left > 0)
    }
}
