//! What is derived from the records: counts, orders, lists, and how much of each segment is still needed.

use std::collections::{BTreeSet, VecDeque};

use foldhash::fast::RandomState;
use hapax_core::{Id, Stamp, Tag};
use hapax_store::Entry as Listed;
use hashbrown::HashMap;

use crate::{
    entry::REMOVAL_BYTES,
    front::Front,
    slot::{GONE, HEAVY, Key, NOBODY, REMOVED, Slot, TOMBSTONE},
};

type Map<K, V> = HashMap<K, V, RandomState>;

/// What a tag holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Count {
    pub(crate) records: u64,
    pub(crate) tombstones: u64,
    /// What the records take: their entries in the log, and the bodies beside them.
    pub(crate) bytes: u64,
}

/// How much of a segment is still needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Needed {
    pub(crate) slots: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) accounts: Accounts,
    /// How many bytes lie beside each record that has bodies.
    beside: Map<Key, u64>,
    pub(crate) lease: BTreeSet<(u64, Id)>,
    pub(crate) doubt: BTreeSet<Id>,
    pub(crate) lists: BTreeSet<(Listed, Id)>,
    /// The lists of each record that is in one, so that it can be taken out again.
    listed: Map<Key, (Id, Box<[Listed]>)>,
    /// When records go, and when what is gone may be forgotten.
    pub(crate) going: Front,
    pub(crate) expiry: Front,
    /// From the oldest segment on.
    segments: VecDeque<Needed>,
    oldest: u32,
    /// The bytes of all that is unexpired, removals that must be remembered included.
    needed: u64,
}

impl Books {
    pub(crate) fn new(oldest: u32) -> Self {
        Self {
            accounts: Accounts::default(),
            beside: Map::default(),
            lease: BTreeSet::new(),
            doubt: BTreeSet::new(),
            lists: BTreeSet::new(),
            listed: Map::default(),
            going: Front::new(),
            expiry: Front::new(),
            segments: VecDeque::new(),
            oldest,
            needed: 0,
        }
    }

    pub(crate) fn needed(&self) -> u64 {
        self.needed
    }

    pub(crate) fn of_segment(&self, number: u32) -> Needed {
        let at = number.checked_sub(self.oldest).map(|at| at as usize);
        at.and_then(|at| self.segments.get(at)).copied().unwrap_or_default()
    }

    pub(crate) fn drop_oldest(&mut self) {
        self.segments.pop_front();
        self.oldest += 1;
    }

    /// A slot enters the index, its account taken.
    pub(crate) fn enter(&mut self, slot: &Slot, beside: u64) {
        self.set_beside(slot, beside);
        self.weigh(slot, true);
        self.tally(slot, true);
    }

    /// A slot leaves the index, or is about to change.
    pub(crate) fn leave(&mut self, slot: &Slot) {
        self.weigh(slot, false);
        self.tally(slot, false);
        if slot.has(HEAVY) {
            self.beside.remove(&slot.key());
        }
        self.accounts.release(slot.account());
    }

    /// Another slot of the [same standing](Self::same_standing) takes the place of one.
    pub(crate) fn replace(&mut self, old: &Slot, new: &Slot, beside: u64) {
        self.weigh(old, false);
        self.weigh(new, true);
        let before = self.taken(old);
        if old.has(HEAVY) && !new.has(HEAVY) {
            self.beside.remove(&old.key());
        }
        self.set_beside(new, beside);
        if !new.has(TOMBSTONE) {
            let after = self.taken(new);
            self.accounts.change(new.account(), |count| {
                count.bytes = count.bytes.saturating_add(after).saturating_sub(before);
            });
        }
    }

    /// How many bytes lie beside it.
    pub(crate) fn beside(&self, slot: &Slot) -> u64 {
        if slot.has(HEAVY) { self.beside.get(&slot.key()).copied().unwrap_or(0) } else { 0 }
    }

    fn set_beside(&mut self, slot: &Slot, beside: u64) {
        if slot.has(HEAVY) {
            self.beside.insert(slot.key(), beside);
        }
    }

    /// What its tenant is counted for it. It is carried over as it is, so this stays the same wherever it lies.
    fn taken(&self, slot: &Slot) -> u64 {
        u64::from(slot.place().length).saturating_add(self.beside(slot))
    }

    pub(crate) fn weigh(&mut self, slot: &Slot, comes: bool) {
        let place = slot.place();
        let bytes = needed_bytes(slot);
        let Some(at) = place.segment.checked_sub(self.oldest) else { return };
        let at = at as usize;
        if self.segments.len() <= at {
            self.segments.resize(at + 1, Needed::default());
        }
        let segment = &mut self.segments[at];
        if comes {
            segment.slots += 1;
            segment.bytes += bytes;
            self.needed += bytes;
        } else {
            segment.slots = segment.slots.saturating_sub(1);
            segment.bytes = segment.bytes.saturating_sub(bytes);
            self.needed = self.needed.saturating_sub(bytes);
        }
    }

    fn tally(&mut self, slot: &Slot, comes: bool) {
        if slot.has(REMOVED) || slot.has(GONE) {
            return;
        }
        let (tombstone, taken) = (slot.has(TOMBSTONE), self.taken(slot));
        self.accounts.change(slot.account(), |count| {
            let bytes = if tombstone { 0 } else { taken };
            let number = if tombstone { &mut count.tombstones } else { &mut count.records };
            if comes {
                *number += 1;
                count.bytes = count.bytes.saturating_add(bytes);
            } else {
                *number = number.saturating_sub(1);
                count.bytes = count.bytes.saturating_sub(bytes);
            }
        });
    }

    /// The new slot has the same account and counts the same: only its place is another.
    pub(crate) fn same_standing(old: &Slot, new: &Slot, account: u32) -> bool {
        let standing = |slot: &Slot| (slot.has(TOMBSTONE), slot.has(GONE) || slot.has(REMOVED));
        old.account() == account && standing(old) == standing(new)
    }

    pub(crate) fn enlist(&mut self, key: Key, id: Id, lists: &[Listed]) {
        if !lists.is_empty() {
            self.lists.extend(lists.iter().map(|listed| (*listed, id)));
            self.listed.insert(key, (id, lists.into()));
        }
    }

    pub(crate) fn strike(&mut self, key: Key) {
        if let Some((id, lists)) = self.listed.remove(&key) {
            for listed in lists {
                self.lists.remove(&(listed, id));
            }
        }
    }

    pub(crate) fn add_lease(&mut self, end: Option<Stamp>, in_doubt: bool, id: Id) {
        if let Some(end) = end {
            self.lease.insert((end.0, id));
        }
        if in_doubt {
            self.doubt.insert(id);
        }
    }

    pub(crate) fn remove_lease(&mut self, end: Option<Stamp>, in_doubt: bool, id: Id) {
        if let Some(end) = end {
            self.lease.remove(&(end.0, id));
        }
        if in_doubt {
            self.doubt.remove(&id);
        }
    }
}

/// Of what is gone only the version has to be kept, as a removal would.
pub(crate) fn needed_bytes(slot: &Slot) -> u64 {
    if slot.has(GONE) || slot.has(REMOVED) { REMOVAL_BYTES as u64 } else { u64::from(slot.place().length) }
}

/// Surfaces and tenants by number, so that a slot names both in four bytes.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    all: Vec<Account>,
    numbers: Map<(Tag, Tag), u32>,
    of_tenant: Map<Tag, Vec<u32>>,
    free: Vec<u32>,
    counts: Counts,
}

#[derive(Debug)]
struct Account {
    tags: (Tag, Tag),
    /// Where the two are counted.
    counts: (u32, u32),
    slots: u32,
}

/// What each tag holds, by number, so that no write has to search for it.
#[derive(Debug, Default)]
struct Counts {
    all: Vec<Count>,
    /// Where a tag is counted, and how many accounts name it.
    numbers: Map<Tag, (u32, u32)>,
    free: Vec<u32>,
}

impl Counts {
    fn take(&mut self, tag: Tag) -> u32 {
        let Self { all, numbers, free } = self;
        let (number, accounts) = numbers.entry(tag).or_insert_with(|| {
            let number = free.pop().unwrap_or_else(|| {
                all.push(Count::default());
                (all.len() - 1) as u32
            });
            (number, 0)
        });
        *accounts += 1;
        *number
    }

    fn release(&mut self, tag: Tag) {
        let Some((number, accounts)) = self.numbers.get_mut(&tag) else { return };
        *accounts -= 1;
        if *accounts == 0 {
            self.all[*number as usize] = Count::default();
            self.free.push(*number);
            self.numbers.remove(&tag);
        }
    }
}

impl Accounts {
    pub(crate) fn find(&self, surface: Tag, tenant: Tag) -> u32 {
        self.numbers.get(&(surface, tenant)).copied().unwrap_or(NOBODY)
    }

    /// One more slot names it.
    pub(crate) fn take(&mut self, surface: Tag, tenant: Tag) -> u32 {
        if let Some(&number) = self.numbers.get(&(surface, tenant)) {
            self.all[number as usize].slots += 1;
            return number;
        }
        let counts = (self.counts.take(surface), self.counts.take(tenant));
        let account = Account { tags: (surface, tenant), counts, slots: 1 };
        let number = match self.free.pop() {
            Some(number) => {
                self.all[number as usize] = account;
                number
            }
            None => {
                self.all.push(account);
                (self.all.len() - 1) as u32
            }
        };
        self.numbers.insert((surface, tenant), number);
        self.of_tenant.entry(tenant).or_default().push(number);
        number
    }

    pub(crate) fn release(&mut self, number: u32) {
        let Some(account) = self.all.get_mut(number as usize).filter(|account| account.slots > 0) else { return };
        account.slots -= 1;
        if account.slots == 0 {
            let tags = account.tags;
            self.counts.release(tags.0);
            self.counts.release(tags.1);
            self.numbers.remove(&tags);
            if let Some(numbers) = self.of_tenant.get_mut(&tags.1) {
                numbers.retain(|held| *held != number);
                if numbers.is_empty() {
                    self.of_tenant.remove(&tags.1);
                }
            }
            self.free.push(number);
        }
    }

    pub(crate) fn tags(&self, number: u32) -> Option<(Tag, Tag)> {
        self.all.get(number as usize).filter(|account| account.slots > 0).map(|account| account.tags)
    }

    /// What the tag holds: as a surface, as a tenant, or as both.
    pub(crate) fn count(&self, tag: Tag) -> Count {
        let number = self.counts.numbers.get(&tag).map(|(number, _)| *number as usize);
        number.and_then(|number| self.counts.all.get(number)).copied().unwrap_or_default()
    }

    /// A record counts once for a tag, also where surface and tenant are one.
    fn change(&mut self, number: u32, change: impl Fn(&mut Count)) {
        let Some(account) = self.all.get(number as usize).filter(|account| account.slots > 0) else { return };
        let (surface, tenant) = account.counts;
        change(&mut self.counts.all[surface as usize]);
        if tenant != surface {
            change(&mut self.counts.all[tenant as usize]);
        }
    }

    /// How many slots name this tenant, on all surfaces.
    pub(crate) fn slots_of(&self, tenant: Tag) -> u64 {
        let numbers = self.of_tenant.get(&tenant).into_iter().flatten();
        numbers.filter_map(|number| self.all.get(*number as usize)).map(|account| u64::from(account.slots)).sum()
    }

    pub(crate) fn of_tenant(&self, tenant: Tag) -> Vec<u32> {
        self.of_tenant.get(&tenant).cloned().unwrap_or_default()
    }
}
