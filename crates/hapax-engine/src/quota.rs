//! Room to run, and room to keep.
//!
//! Admission counts what runs in this process. Capacity counts what the store keeps: the store is asked only when what
//! it last said could be used up, and begins that it may not have seen yet are counted against it, so a quota on a
//! store with one writer is never overrun.

use std::sync::Arc;

use hapax_core::{
    Millis, Refusal, RefusalReason, Tag,
    command::Admit,
    policy::{Admission, Policy},
    record::About,
};
use hapax_store::{StoreError, Usage};
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::engine::Inner;

/// What a refused caller is told to wait.
const RETRY_AFTER: Millis = Millis::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Quotas {
    running: Mutex<HashMap<Tag, u32, foldhash::fast::RandomState>>,
    accounts: Mutex<HashMap<Tag, Account, foldhash::fast::RandomState>>,
}

/// What one tag may still add before the store has to be asked again.
#[derive(Debug, Default)]
struct Account {
    left: u64,
    /// The limit that this is left of: under another one the store is asked.
    limit: u64,
    /// Granted, and not yet known to be written or not.
    open: u64,
    /// Granted in all.
    granted: u64,
    /// How many are asking the store right now; the account is not forgotten under them.
    readers: u32,
}

impl Account {
    const fn grant(&mut self) {
        self.open += 1;
        self.granted += 1;
    }
}

/// One running attempt, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    quotas: Arc<Quotas>,
    tags: [Tag; 2],
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.quotas.running.lock();
        for tag in self.tags {
            if let Some(count) = running.get_mut(&tag) {
                *count -= 1;
                if *count == 0 {
                    running.remove(&tag);
                }
            }
        }
    }
}

/// Room for one record, held until it is known whether it was used.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    quotas: &'a Quotas,
    tags: [Tag; 2],
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut accounts = self.quotas.accounts.lock();
        for tag in self.tags {
            if let Some(account) = accounts.get_mut(&tag) {
                account.open = account.open.saturating_sub(1);
            }
        }
    }
}

pub(crate) fn refused(reason: RefusalReason) -> Admit {
    Admit::No(Refusal { reason, retry_after: RETRY_AFTER })
}

/// Whether something was evicted for the record that is to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    AsItIs,
    Made,
}

/// Which limit is in the way of one more record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    Records,
    Tombstones,
}

impl Quotas {
    /// Counts one more in flight, if there is room for it.
    pub(crate) fn run(self: &Arc<Self>, admission: Option<Admission>, about: &About) -> Result<Option<Running>, ()> {
        let Some(admission) = admission else { return Ok(None) };
        let tags = [about.surface_tag, about.tenant_tag];
        let mut running = self.running.lock();
        for (tag, most) in tags.into_iter().zip([admission.max_in_flight, admission.per_tenant]) {
            if running.get(&tag).is_some_and(|count| *count >= most) {
                return Err(());
            }
        }
        for tag in tags {
            *running.entry(tag).or_insert(0) += 1;
        }
        Ok(Some(Running { quotas: Arc::clone(self), tags }))
    }

    /// Reserves room for one more record, asking the store how much there is.
    pub(crate) async fn keep(
        &self,
        inner: &Inner,
        policy: &Policy,
        about: &About,
        made: Room,
    ) -> Result<Result<Place<'_>, Full>, StoreError> {
        let tags = [about.surface_tag, about.tenant_tag];
        // What is open, and how much is granted while the store is asked, is counted on top of what it says: a begin
        // that settles in between is counted twice rather than not at all.
        let reading = Reading::start(self, tags);
        let surface = inner.usage(tags[0]).await?;
        let tenant = inner.usage(tags[1]).await?;
        // The tombstone that was left to make this room may be the last one.
        let left_for_this = match made {
            Room::AsItIs => 0,
            Room::Made => 1,
        };
        if tombstones_full(policy, surface, tenant, left_for_this) {
            return Ok(Err(Full::Tombstones));
        }
        let limits = limits_of(policy);
        let mut accounts = self.accounts.lock();
        let mut room = [0; 2];
        for (at, usage) in [surface, tenant].into_iter().enumerate() {
            let granted = accounts.get(&tags[at]).map_or(0, |account| account.granted);
            let unseen = reading.open[at].saturating_add(granted.saturating_sub(reading.granted[at]));
            room[at] = limits[at].saturating_sub(usage.records.saturating_add(unseen));
        }
        if room.contains(&0) {
            return Ok(Err(Full::Records));
        }
        for ((tag, room), limit) in tags.into_iter().zip(room).zip(limits) {
            // Half of what is there may be used before the store is asked again; near the limit it is asked each time.
            let account = accounts.entry(tag).or_default();
            account.left = (room - 1) / 2;
            account.limit = limit;
            account.grant();
        }
        Ok(Ok(Place { quotas: self, tags }))
    }

    /// Reserves room for one more record, if what the store last said leaves any.
    pub(crate) fn take(&self, policy: &Policy, about: &About) -> Option<Place<'_>> {
        let tags = [about.surface_tag, about.tenant_tag];
        let mut accounts = self.accounts.lock();
        for (tag, limit) in tags.iter().zip(limits_of(policy)) {
            accounts.get(tag).filter(|account| account.left > 0 && account.limit == limit)?;
        }
        for tag in tags {
            let account = accounts.entry(tag).or_default();
            account.left -= 1;
            account.grant();
        }
        Some(Place { quotas: self, tags })
    }

    /// What the store last said was judged by limits that no longer hold.
    pub(crate) fn ask_anew(&self) {
        for account in self.accounts.lock().values_mut() {
            account.left = 0;
        }
    }
}

/// How many records the surface and one tenant may keep.
const fn limits_of(policy: &Policy) -> [u64; 2] {
    [policy.capacity.max_records, policy.capacity.per_tenant]
}

impl Inner {
    /// Room for one more record that is no operation. The place is held until it is dropped.
    pub(crate) async fn room_for(
        &self,
        policy: &Policy,
        about: &About,
    ) -> Result<Result<Place<'_>, NoRoom>, StoreError> {
        let most = policy.capacity.per_tenant;
        if let Some(place) = self.quotas.take(policy, about) {
            return Ok(Ok(place));
        }
        let no_room = |_full| NoRoom { surface: about.surface.to_string(), most };
        Ok(self.quotas.keep(self, policy, about, Room::AsItIs).await?.map_err(no_room))
    }
}

/// As many are kept as may be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no room for one more on surface `{surface}`: a tenant may have {most}; close or let expire what is no longer \
     needed, or raise `capacity.per_tenant` of that surface [HX0150]"
)]
pub struct NoRoom {
    pub surface: String,
    /// How many a tenant may have.
    pub most: u64,
}

/// Whether the surface, or the tenant for its share of it, keeps as many tombstones as it may.
pub(crate) fn tombstones_full(policy: &Policy, surface: Usage, tenant: Usage, left_for_this: u64) -> bool {
    let capacity = &policy.capacity;
    let share =
        u128::from(capacity.max_tombstones) * u128::from(capacity.per_tenant) / u128::from(capacity.max_records.max(1));
    let share = u64::try_from(share).unwrap_or(u64::MAX).max(1);
    surface.tombstones.saturating_sub(left_for_this) >= capacity.max_tombstones
        || tenant.tombstones.saturating_sub(left_for_this) >= share
}

/// The accounts as they stood before the store was asked.
struct Reading<'a> {
    quotas: &'a Quotas,
    tags: [Tag; 2],
    open: [u64; 2],
    granted: [u64; 2],
}

impl<'a> Reading<'a> {
    fn start(quotas: &'a Quotas, tags: [Tag; 2]) -> Self {
        let (mut open, mut granted) = ([0; 2], [0; 2]);
        let mut accounts = quotas.accounts.lock();
        for (at, tag) in tags.into_iter().enumerate() {
            let account = accounts.entry(tag).or_default();
            account.readers += 1;
            (open[at], granted[at]) = (account.open, account.granted);
        }
        Self { quotas, tags, open, granted }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut accounts = self.quotas.accounts.lock();
        for tag in self.tags {
            if let Some(account) = accounts.get_mut(&tag) {
                account.readers -= 1;
            }
        }
        // What was only looked at is forgotten again, or ever new tenants at a full surface would fill the memory.
        if accounts.len() > MOST_ACCOUNTS {
            accounts.retain(|_, account| account.open > 0 || account.readers > 0);
        }
    }
}

/// How many tags are remembered; beyond that only those with open begins.
const MOST_ACCOUNTS: usize = 65_536;
