//! Bodies in flight are bounded in their sum, not only one by one: of all together, and of each tenant.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use crate::{auth::TenantState, limits::Limits};

/// The bytes of all bodies in flight.
#[derive(Debug)]
pub(crate) struct Bodies {
    held: AtomicUsize,
    most: usize,
    most_of_one: usize,
}

impl Bodies {
    pub(crate) const fn new(limits: &Limits) -> Self {
        // One tenant gets half at most: the others go on however many large bodies it leaves hanging.
        Self { held: AtomicUsize::new(0), most: limits.bodies, most_of_one: limits.bodies / 2 }
    }
}

/// So much of each body is free, as a connection has its buffer: small requests are never turned away for large ones.
const FREE: usize = 16 * 1024;

/// What one request has taken, given back with it.
#[derive(Debug)]
pub(crate) struct BodyRoom {
    all: Arc<Bodies>,
    tenant: Arc<TenantState>,
    taken: AtomicUsize,
}

impl BodyRoom {
    pub(crate) fn new(all: &Arc<Bodies>, tenant: &Arc<TenantState>) -> Self {
        Self { all: Arc::clone(all), tenant: Arc::clone(tenant), taken: AtomicUsize::new(0) }
    }

    /// Whether the body may grow to so many bytes. Nobody waits here: two that wait for each other's room would for ever.
    pub(super) fn grow_to(&self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(FREE).saturating_sub(self.taken.load(Relaxed));
        if more == 0 {
            return true;
        }
        let take = |held: &AtomicUsize, most: usize| {
            held.fetch_update(Relaxed, Relaxed, |now| now.checked_add(more).filter(|sum| *sum <= most)).is_ok()
        };
        if !take(&self.tenant.body_bytes, self.all.most_of_one) {
            return false;
        }
        if !take(&self.all.held, self.all.most) {
            self.tenant.body_bytes.fetch_sub(more, Relaxed);
            return false;
        }
        self.taken.fetch_add(more, Relaxed);
        true
    }
}

impl Drop for BodyRoom {
    fn drop(&mut self) {
        let taken = self.taken.load(Relaxed);
        self.tenant.body_bytes.fetch_sub(taken, Relaxed);
        self.all.held.fetch_sub(taken, Relaxed);
    }
}
