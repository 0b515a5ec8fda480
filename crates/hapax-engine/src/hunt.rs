//! Where the search for something to evict goes on.
//!
//! Records are searched in the order of their last write, and one that may not be evicted stays so until it is written
//! again, which puts it behind all others; only time can change that, and time is the sweeper's business. So what was
//! looked at once need not be looked at by everybody who asks for room: a tenant that is full of what must be kept would
//! make each of its requests a search through all of it, at the expense of its neighbours.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use hapax_core::Tag;
use hapax_store::Cursor;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a search rests that has come to its end in vain.
const REST: Duration = Duration::from_secs(1);
/// How many searches are remembered. Without its place one begins anew.
const MOST: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct Hunts {
    /// Anybody rests. Only a hint, for the many who end an attempt where nobody does.
    resting: AtomicBool,
    of_tenants: Mutex<HashMap<Tag, Hunt, foldhash::fast::RandomState>>,
}

#[derive(Clone, Debug)]
enum Hunt {
    At(Cursor),
    RestsUntil(Instant),
}

/// What whoever needs room may do.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Search on from here; `None`: from the oldest.
    From(Option<Cursor>),
    /// There was nothing a moment ago.
    Nothing,
}

impl Hunts {
    pub(crate) fn next(&self, tenant: Tag) -> Next {
        match self.of_tenants.lock().get(&tenant) {
            Some(Hunt::RestsUntil(until)) if Instant::now() < *until => Next::Nothing,
            Some(Hunt::RestsUntil(_)) | None => Next::From(None),
            Some(Hunt::At(cursor)) => Next::From(Some(cursor.clone())),
        }
    }

    /// Everything up to here has to be kept.
    pub(crate) fn go_on(&self, tenant: Tag, from: Option<Cursor>) {
        match from {
            None => drop(self.of_tenants.lock().remove(&tenant)),
            Some(cursor) => self.remember(tenant, Hunt::At(cursor)),
        }
    }

    /// Everything there is has to be kept.
    pub(crate) fn rest(&self, tenant: Tag) {
        self.remember(tenant, Hunt::RestsUntil(Instant::now() + REST));
        self.resting.store(true, Ordering::Release);
    }

    fn remember(&self, tenant: Tag, hunt: Hunt) {
        let mut hunts = self.of_tenants.lock();
        if hunts.len() >= MOST {
            hunts.clear();
        }
        hunts.insert(tenant, hunt);
    }

    /// Something of this tenant has ended here, and may be worth a search.
    pub(crate) fn ended(&self, tenant: Tag) {
        if !self.resting.load(Ordering::Acquire) {
            return;
        }
        let mut hunts = self.of_tenants.lock();
        if let Some(Hunt::RestsUntil(_)) = hunts.get(&tenant) {
            hunts.remove(&tenant);
        }
        let anybody = hunts.values().any(|hunt| matches!(hunt, Hunt::RestsUntil(until) if Instant::now() < *until));
        self.resting.store(anybody, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_search_goes_on_rests_and_is_taken_up_again() {
        let (hunts, tenant) = (Hunts::default(), Tag([1; 16]));
        let place = Cursor(bytes::Bytes::from_static(b"here"));
        assert_eq!(hunts.next(tenant), Next::From(None));
        hunts.go_on(tenant, Some(place.clone()));
        assert_eq!(hunts.next(tenant), Next::From(Some(place)));
        hunts.rest(tenant);
        assert_eq!(hunts.next(tenant), Next::Nothing);
        hunts.ended(Tag([2; 16]));
        assert_eq!(hunts.next(tenant), Next::Nothing, "another tenant's end is nothing to it");
        hunts.ended(tenant);
        assert_eq!(hunts.next(tenant), Next::From(None));
        hunts.rest(tenant);
        tokio::time::advance(REST).await;
        assert_eq!(hunts.next(tenant), Next::From(None));
    }

    #[tokio::test(start_paused = true)]
    async fn no_number_of_tenants_fills_the_memory() {
        let hunts = Hunts::default();
        for number in 0..3 * MOST as u128 {
            hunts.rest(Tag(number.to_be_bytes()));
        }
        assert!(hunts.of_tenants.lock().len() <= MOST);
    }
}
