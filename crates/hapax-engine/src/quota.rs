//! Room to run, and room to keep.
//!
//! Admission counts what runs in this process. Capacity counts what the store keeps: the store is asked only when what
//! it last said could be used up, and begins that it may not have seen yet are counted against it, so a quota on a
//! store with one writer is never overrun.
//!
//! Of bytes nobody knows beforehand how many a begin will come to. So it is refused once they are used up, a completion never
//! is, and what was under way then is what a tenant can be above its limit.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use hapax_core::{
    Millis, Refusal, RefusalReason, Tag,
    command::Admit,
    policy::{Admission, Policy},
    record::About,
};
use hapax_store::{Counted, Envelope, StoreError, Usage};
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::engine::Inner;

/// What a refused caller is told to wait.
const RETRY_AFTER: Millis = Millis::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Quotas {
    running: Mutex<HashMap<Tag, u32, foldhash::fast::RandomState>>,
    accounts: Mutex<HashMap<Tag, Account, foldhash::fast::RandomState>>,
    /// Whether anybody's bytes are limited; if not, no write is weighed.
    weighs: AtomicBool,
}

/// What one tag may keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Limit {
    records: u64,
    bytes: Option<u64>,
}

/// What one tag may still add before the store has to be asked again.
#[derive(Debug, Default)]
struct Account {
    left: u64,
    /// Of bytes, if they are limited.
    bytes_left: u64,
    /// The limit that this is left of: under another one the store is asked.
    limit: Limit,
    /// Granted, and not yet known to be written or not.
    open: u64,
    /// Granted in all.
    granted: u64,
    /// Bytes written in all.
    written: u64,
    /// How many are asking the store right now; the account is not forgotten under them.
    readers: u32,
}

impl Account {
    fn has_room(&self, limit: Limit) -> bool {
        self.limit == limit && self.left > 0 && (limit.bytes.is_none() || self.bytes_left > 0)
    }

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
    Bytes,
}

impl Full {
    pub(crate) fn refused(self) -> Admit {
        let reason = match self {
            Self::Records | Self::Tombstones => RefusalReason::Quota,
            Self::Bytes => RefusalReason::Bytes,
        };
        refused(reason)
    }
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
        if policy.capacity.bytes_per_tenant.is_some() {
            self.weighs.store(true, Relaxed);
        }
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
        let no_tombstones = tombstones_full(policy, surface, tenant, left_for_this);
        let limits = limits_of(policy);
        let mut accounts = self.accounts.lock();
        let mut room = [0; 2];
        let mut bytes = [u64::MAX; 2];
        for (at, usage) in [surface, tenant].into_iter().enumerate() {
            let (granted, written) =
                accounts.get(&tags[at]).map_or((0, 0), |account| (account.granted, account.written));
            let unseen = reading.open[at].saturating_add(granted.saturating_sub(reading.granted[at]));
            room[at] = limits[at].records.saturating_sub(usage.records.saturating_add(unseen));
            if let Some(most) = limits[at].bytes {
                let unseen = written.saturating_sub(reading.written[at]);
                bytes[at] = most.saturating_sub(usage.bytes.saturating_add(unseen));
            }
        }
        // Bytes first: they are in the way of another attempt at a record that is kept already, and the others are not.
        if bytes.contains(&0) {
            return Ok(Err(Full::Bytes));
        }
        if no_tombstones {
            return Ok(Err(Full::Tombstones));
        }
        if room.contains(&0) {
            return Ok(Err(Full::Records));
        }
        for (at, tag) in tags.into_iter().enumerate() {
            // Half of what is there may be used before the store is asked again; near the limit it is asked each time.
            let account = accounts.entry(tag).or_default();
            account.left = (room[at] - 1) / 2;
            account.bytes_left = bytes[at] / 2;
            account.limit = limits[at];
            account.grant();
        }
        Ok(Ok(Place { quotas: self, tags }))
    }

    /// Reserves room for one more record, if what the store last said leaves any.
    pub(crate) fn take(&self, policy: &Policy, about: &About) -> Option<Place<'_>> {
        let tags = [about.surface_tag, about.tenant_tag];
        let mut accounts = self.accounts.lock();
        for (tag, limit) in tags.iter().zip(limits_of(policy)) {
            accounts.get(tag).filter(|account| account.has_room(limit))?;
        }
        for tag in tags {
            let account = accounts.entry(tag).or_default();
            account.left -= 1;
            account.grant();
        }
        Some(Place { quotas: self, tags })
    }

    /// Whose bytes a write is to be counted against, and how many.
    pub(crate) fn weigh(&self, next: Option<&Envelope>) -> Option<(Tag, u64)> {
        let next = next.filter(|next| self.weighs.load(Relaxed) && next.counted == Counted::Record)?;
        Some((next.tenant, next.weight()))
    }

    /// It was written, or may have been. What it took the place of is not given back: the store says that when it is asked.
    pub(crate) fn wrote(&self, weighed: Option<(Tag, u64)>) {
        let Some((tag, weight)) = weighed else { return };
        if let Some(account) = self.accounts.lock().get_mut(&tag) {
            account.written = account.written.saturating_add(weight);
            account.bytes_left = account.bytes_left.saturating_sub(weight);
        }
    }

    /// What the store last said was judged by limits that no longer hold.
    pub(crate) fn ask_anew(&self) {
        for account in self.accounts.lock().values_mut() {
            account.left = 0;
        }
    }
}

/// What the surface and one tenant may keep.
const fn limits_of(policy: &Policy) -> [Limit; 2] {
    let capacity = &policy.capacity;
    [
        Limit { records: capacity.max_records, bytes: None },
        Limit { records: capacity.per_tenant, bytes: capacity.bytes_per_tenant },
    ]
}

impl Inner {
    /// Room for one more record that is no operation. The place is held until it is dropped.
    pub(crate) async fn room_for(
        &self,
        policy: &Policy,
        about: &About,
    ) -> Result<Result<Place<'_>, NoRoom>, StoreError> {
        if let Some(place) = self.quotas.take(policy, about) {
            return Ok(Ok(place));
        }
        let capacity = &policy.capacity;
        let no_room = |full| NoRoom {
            surface: about.surface.to_string(),
            most: match (full, capacity.bytes_per_tenant) {
                (Full::Bytes, Some(most)) => Most::Bytes(most),
                (Full::Bytes, None) | (Full::Records | Full::Tombstones, _) => Most::Records(capacity.per_tenant),
            },
        };
        Ok(self.quotas.keep(self, policy, about, Room::AsItIs).await?.map_err(no_room))
    }
}

/// As many are kept as may be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no room for one more on surface `{surface}`: a tenant may have {most}; close or let expire what is no longer \
     needed, or raise `capacity.{}` of that surface [HX0150]",
    .most.knob()
)]
pub struct NoRoom {
    pub surface: String,
    /// How much a tenant may have.
    pub most: Most,
}

/// The limit that was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Most {
    Records(u64),
    Bytes(u64),
}

impl Most {
    const fn knob(self) -> &'static str {
        match self {
            Self::Records(_) => "per_tenant",
            Self::Bytes(_) => "bytes_per_tenant",
        }
    }
}

impl fmt::Display for Most {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Records(most) => write!(f, "{most}"),
            Self::Bytes(most) => write!(f, "{most} bytes"),
        }
    }
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
    written: [u64; 2],
}

impl<'a> Reading<'a> {
    fn start(quotas: &'a Quotas, tags: [Tag; 2]) -> Self {
        let (mut open, mut granted, mut written) = ([0; 2], [0; 2], [0; 2]);
        let mut accounts = quotas.accounts.lock();
        for (at, tag) in tags.into_iter().enumerate() {
            let account = accounts.entry(tag).or_default();
            account.readers += 1;
            (open[at], granted[at], written[at]) = (account.open, account.granted, account.written);
        }
        Self { quotas, tags, open, granted, written }
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
