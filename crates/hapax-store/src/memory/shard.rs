use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::BuildHasher,
    mem,
    ops::Bound::{Excluded, Included, Unbounded},
};

use foldhash::fast::RandomState;
use hapax_core::{Id, Millis, Stamp, Tag, Version};
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch::{Receiver, Sender};

use super::{
    age::Age,
    earliest::Earliest,
    place::{Due, Place},
    slot::{Slot, Slots},
};
use crate::{Change, Entry, Envelope, Index, List};

const COUNT: usize = 64;

#[derive(Debug)]
pub(super) struct Shards {
    all: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

impl Shards {
    pub(super) fn new() -> Self {
        Self { all: (0..COUNT).map(|_| Mutex::default()).collect(), hasher: RandomState::default() }
    }

    pub(super) fn of(&self, id: &Id) -> &Mutex<Shard> {
        // The upper bits, since the maps inside the shards use the lower ones.
        let mixed = (self.hasher.hash_one(id) >> 32) as usize;
        &self.all[mixed % COUNT]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Mutex<Shard>> {
        self.all.iter()
    }
}

/// A part of all ids, with its own indexes.
#[derive(Debug, Default)]
pub(super) struct Shard {
    by_id: HashMap<Id, u32, RandomState>,
    slots: Slots,
    lease: BTreeMap<Due, u32>,
    expiry: BTreeMap<Due, u32>,
    doubt: BTreeMap<Version, u32>,
    lists: BTreeSet<(Entry, Id)>,
    tenants: HashMap<Tag, Tenant, RandomState>,
    /// Records and removals, for the change feed.
    written: Age,
    removals: VecDeque<Removal>,
    watched: HashMap<Id, Sender<()>, RandomState>,
}

/// The records of one tenant in one shard.
#[derive(Debug, Default)]
struct Tenant {
    live: usize,
    age: Age,
}

#[derive(Debug)]
struct Removal {
    since: Stamp,
    version: Version,
    at: u32,
}

impl Shard {
    pub(super) fn find(&self, id: &Id) -> (Option<u32>, Option<&Slot>) {
        let at = self.by_id.get(id).copied();
        (at, at.and_then(|at| self.slots.get(at)))
    }

    /// Changes places with what was there: `record` holds the old one afterwards, so that it dies outside the lock.
    pub(super) fn write(
        &mut self,
        id: &Id,
        at: Option<u32>,
        record: &mut Option<Envelope>,
        version: Version,
        stamp: Stamp,
    ) {
        let at = at.unwrap_or_else(|| {
            let at = self.slots.take(*id);
            self.by_id.insert(*id, at);
            at
        });
        let Some(slot) = self.slots.get_mut(at) else { return };
        slot.version = version;
        slot.stamp = stamp;
        mem::swap(&mut slot.record, record);
        let old = record.as_ref();
        let new = slot.record.as_ref();

        let due = new.and_then(|record| record.lease_end).map(|due| due.resolve(stamp));
        settle(&mut self.lease, &mut slot.lease, due, version, at);
        let due = new.and_then(|record| record.expiry).map(|due| due.resolve(stamp));
        settle(&mut self.expiry, &mut slot.expiry, due, version, at);
        match (slot.doubt, new.is_some_and(|record| record.in_doubt)) {
            (None, true) => {
                slot.doubt = Some(version);
                self.doubt.insert(version, at);
            }
            (Some(since), false) => {
                slot.doubt = None;
                self.doubt.remove(&since);
            }
            (None, false) | (Some(_), true) => {}
        }
        relist(&mut self.lists, id, old, new);
        if new.is_none() {
            self.removals.push_back(Removal { since: stamp, version, at });
        }

        let tenant = new.map(|record| record.tenant);
        self.move_tenant(old.map(|record| record.tenant), tenant, version, at);
        self.written.push(version, at, self.by_id.len(), &self.slots);
    }

    fn move_tenant(&mut self, from: Option<Tag>, to: Option<Tag>, version: Version, at: u32) {
        if let Some(tag) = from.filter(|_| from != to)
            && let Some(tenant) = self.tenants.get_mut(&tag)
        {
            tenant.live -= 1;
            if tenant.live == 0 {
                self.tenants.remove(&tag);
            }
        }
        if let Some(tag) = to {
            let tenant = self.tenants.entry(tag).or_default();
            tenant.live += usize::from(from != to);
            tenant.age.push(version, at, tenant.live, &self.slots);
        }
    }

    /// Forgets a few removals that no late write can depend on any more, and says which was the latest of them.
    pub(super) fn forget_removals(&mut self, clock: Stamp, window: Millis) -> Option<Version> {
        let mut latest = None;
        // Two for each write, which leaves at most one behind: so there is always less to do, and never much at once.
        for _ in 0..2 {
            let Some(removal) = self.removals.front_mut() else { break };
            if self.slots.is_current(removal.at, removal.version) {
                // The clock has jumped back: the window counts from here, or this one would be kept for as long.
                removal.since = removal.since.min(clock);
                if clock.since(removal.since) <= window {
                    break;
                }
                latest = latest.max(Some(removal.version));
                if let Some(slot) = self.slots.get(removal.at) {
                    self.by_id.remove(&slot.id);
                }
                self.slots.give_back(removal.at);
            }
            self.removals.pop_front();
        }
        latest
    }

    pub(super) fn scan(&self, index: Index, after: Option<Place>, found: &mut Earliest<Place, Id>) {
        match index {
            Index::LeaseEnd { until } => self.scan_due(&self.lease, until, after, found),
            Index::Expiry { until } => self.scan_due(&self.expiry, until, after, found),
            Index::InDoubt => {
                let start = after.map_or(Unbounded, |place| Excluded(Version(place.first)));
                for (&since, &at) in self.doubt.range((start, Unbounded)) {
                    let Some(slot) = self.slots.get(at) else { continue };
                    if !found.offer(Place::version(since), || slot.id) {
                        break;
                    }
                }
            }
            Index::TenantAge(tag) => {
                let Some(tenant) = self.tenants.get(&tag) else { return };
                let after = after.map_or(Version::NEVER, |place| Version(place.first));
                for (version, slot) in tenant.age.after(after, &self.slots) {
                    if !found.offer(Place::version(version), || slot.id) {
                        break;
                    }
                }
            }
            Index::Group(tag) => self.scan_list(List::Group, tag, after, found),
            Index::Queue(tag) => self.scan_list(List::Queue, tag, after, found),
        }
    }

    fn scan_due(&self, tree: &BTreeMap<Due, u32>, until: Stamp, after: Option<Place>, found: &mut Earliest<Place, Id>) {
        let start =
            after.map_or(Unbounded, |place| Excluded(Due { at: Stamp(place.first), since: Version(place.then) }));
        for (&due, &at) in tree.range((start, Unbounded)).take_while(|(due, _)| due.at <= until) {
            let Some(slot) = self.slots.get(at) else { continue };
            if !found.offer(Place::due(due), || slot.id) {
                break;
            }
        }
    }

    fn scan_list(&self, list: List, tag: Tag, after: Option<Place>, found: &mut Earliest<Place, Id>) {
        let start = match after {
            None => Included((Entry { list, tag, order: 0 }, Id([0; 32]))),
            Some(place) => Excluded((Entry { list, tag, order: place.first }, place.id)),
        };
        let entries = self.lists.range((start, Unbounded));
        for &(entry, id) in entries.take_while(|(entry, _)| entry.list == list && entry.tag == tag) {
            if !found.offer(Place::order(entry.order, id), || id) {
                break;
            }
        }
    }

    pub(super) fn changes(
        &self,
        after: Version,
        through: Version,
        clock: Stamp,
        found: &mut Earliest<Version, Change>,
    ) {
        for (version, slot) in self.written.after(after, &self.slots) {
            if version > through || !found.offer(version, || Change { id: slot.id, snapshot: slot.snapshot(clock) }) {
                break;
            }
        }
    }

    pub(super) fn subscribe(&mut self, id: Id) -> Receiver<()> {
        self.watched.entry(id).or_insert_with(|| Sender::new(())).subscribe()
    }

    pub(super) fn unsubscribe(&mut self, id: &Id) {
        if self.watched.get(id).is_some_and(|wakes| wakes.receiver_count() == 0) {
            self.watched.remove(id);
        }
    }

    pub(super) fn watched(&self, id: &Id) -> Option<Sender<()>> {
        if self.watched.is_empty() { None } else { self.watched.get(id).cloned() }
    }
}

/// Moves one record's entry in an index of moments, if its moment has moved.
fn settle(tree: &mut BTreeMap<Due, u32>, held: &mut Option<Due>, due: Option<Stamp>, version: Version, at: u32) {
    if held.map(|held| held.at) == due {
        return;
    }
    if let Some(old) = held.take() {
        tree.remove(&old);
    }
    if let Some(moment) = due {
        let due = Due { at: moment, since: version };
        tree.insert(due, at);
        *held = Some(due);
    }
}

fn relist(lists: &mut BTreeSet<(Entry, Id)>, id: &Id, old: Option<&Envelope>, new: Option<&Envelope>) {
    let old = old.map_or(&[][..], |record| &record.entries);
    let new = new.map_or(&[][..], |record| &record.entries);
    if old == new {
        return;
    }
    for entry in old {
        lists.remove(&(*entry, *id));
    }
    for entry in new {
        lists.insert((*entry, *id));
    }
}
