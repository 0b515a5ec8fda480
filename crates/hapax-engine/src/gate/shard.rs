use hapax_core::{Fingerprint, Id, Replay, Stamp, Tag};
use hashbrown::{HashMap, HashTable};

use super::entry::Answer;

/// How many places a tenant at its limit looks at for an entry of its own to give up.
const LOOK_AROUND: usize = 64;

/// One lock's worth of the gate: a table of places in a ring of slots.
///
/// What to drop is found by a hand that goes round the ring and spares whatever was asked for since it last came by:
/// the least recently used, near enough, at the price of one bit in a line that a hit has loaded anyway. A list in exact
/// order would cost every hit two more lines of memory.
#[derive(Debug)]
pub(super) struct Shard {
    table: HashTable<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    hand: usize,
    tenants: HashMap<Tag, Tenant, foldhash::fast::RandomState>,
    /// Which tag a slot's small number stands for.
    tags: Vec<Tag>,
    bytes: usize,
    most_entries: usize,
    most_bytes: usize,
    share: usize,
    share_bytes: usize,
}

#[derive(Debug)]
struct Slot {
    id: Id,
    tenant: u32,
    /// Asked for since the hand last came by.
    used: bool,
    /// How often it was given from here, for *explain*; in room that alignment leaves anyway.
    given: u16,
    answer: Option<Answer>,
}

#[derive(Debug)]
struct Tenant {
    number: u32,
    entries: usize,
    bytes: usize,
}

/// An id is a digest already: its own bytes are its hash.
fn hash(id: &Id) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&id.0[..8]);
    u64::from_le_bytes(bytes)
}

impl Shard {
    pub(super) fn new(most_entries: usize, most_bytes: usize, share: usize, share_bytes: usize) -> Self {
        Self {
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            tenants: HashMap::default(),
            tags: Vec::new(),
            bytes: 0,
            most_entries: most_entries.min(u32::MAX as usize - 1),
            most_bytes,
            share,
            share_bytes,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.most_entries, self.most_bytes, self.share, self.share_bytes);
    }

    fn find(&self, id: &Id) -> Option<u32> {
        self.table.find(hash(id), |at| self.slots[*at as usize].id == *id).copied()
    }

    pub(super) fn look_up(
        &mut self,
        id: &Id,
        print: Option<&Fingerprint>,
        now: impl FnOnce() -> Stamp,
        here: impl FnOnce() -> u64,
    ) -> Option<Replay> {
        let at = self.find(id)?;
        let slot = &mut self.slots[at as usize];
        let answer = slot.answer.as_ref()?;
        if answer.expired(now(), here) {
            self.remove(at);
            return None;
        }
        if !answer.is_for(print) {
            return None;
        }
        slot.used = true;
        slot.given = slot.given.saturating_add(1);
        Some(answer.replay())
    }

    pub(super) fn given(&self, id: &Id) -> u16 {
        self.find(id).map_or(0, |at| self.slots[at as usize].given)
    }

    pub(super) fn insert(&mut self, id: &Id, tenant: Tag, answer: Answer) {
        if let Some(at) = self.find(id) {
            self.remove(at);
        }
        let weight = answer.weight();
        if weight > self.most_bytes || !self.room_within_share(tenant, weight) {
            return;
        }
        while self.table.len() >= self.most_entries || self.bytes + weight > self.most_bytes {
            if !self.drop_one() {
                return;
            }
        }
        let number = self.count_in(tenant, weight);
        let slot = Slot { id: *id, tenant: number, used: false, given: 0, answer: Some(answer) };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.bytes += weight;
        let slots = &self.slots;
        self.table.insert_unique(hash(id), at, |at| hash(&slots[*at as usize].id));
    }

    pub(super) fn forget(&mut self, id: &Id) {
        if let Some(at) = self.find(id) {
            self.remove(at);
        }
    }

    /// Moves the hand on to the first entry that nobody asked for since it last came by, and drops it.
    fn drop_one(&mut self) -> bool {
        // Once round takes all marks away, so the second time round finds one if there is any.
        for _ in 0..2 * self.slots.len() {
            let at = self.advance();
            let slot = &mut self.slots[at];
            if slot.answer.is_some() && !std::mem::take(&mut slot.used) {
                self.remove(at as u32);
                return true;
            }
        }
        false
    }

    const fn advance(&mut self) -> usize {
        let at = if self.hand < self.slots.len() { self.hand } else { 0 };
        self.hand = at + 1;
        at
    }

    /// A tenant at its limit gives up entries of its own, or goes without: it never takes another's.
    fn room_within_share(&mut self, tenant: Tag, weight: usize) -> bool {
        if weight > self.share_bytes {
            return false;
        }
        let mut looked = 0;
        while let Some(known) = self.tenants.get(&tenant) {
            if known.entries < self.share && known.bytes + weight <= self.share_bytes {
                return true;
            }
            if looked == LOOK_AROUND.min(2 * self.slots.len()) {
                return false;
            }
            // Asked each time: removing an entry may have renumbered the tenants.
            let number = known.number;
            let at = self.advance();
            let slot = &mut self.slots[at];
            if slot.answer.is_some() && slot.tenant == number && !std::mem::take(&mut slot.used) {
                self.remove(at as u32);
            }
            looked += 1;
        }
        true
    }

    fn count_in(&mut self, tenant: Tag, weight: usize) -> u32 {
        let tags = &mut self.tags;
        let known = self.tenants.entry(tenant).or_insert_with(|| {
            tags.push(tenant);
            Tenant { number: (tags.len() - 1) as u32, entries: 0, bytes: 0 }
        });
        known.entries += 1;
        known.bytes += weight;
        known.number
    }

    fn count_out(&mut self, number: u32, weight: usize) {
        let Some(tag) = self.tags.get(number as usize) else { return };
        if let Some(known) = self.tenants.get_mut(tag) {
            known.entries -= 1;
            known.bytes -= weight;
        }
        // Names of tenants without entries are dropped once they are the most of what is known.
        if self.tags.len() > 64 + 2 * self.table.len() {
            self.renumber_tenants();
        }
    }

    fn renumber_tenants(&mut self) {
        self.tenants.retain(|_, tenant| tenant.entries > 0);
        let mut moved = vec![0; self.tags.len()];
        self.tags.clear();
        for (tag, tenant) in &mut self.tenants {
            moved[tenant.number as usize] = self.tags.len() as u32;
            tenant.number = self.tags.len() as u32;
            self.tags.push(*tag);
        }
        for slot in &mut self.slots {
            if slot.answer.is_some() {
                slot.tenant = moved[slot.tenant as usize];
            }
        }
    }

    fn remove(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let Some(answer) = slot.answer.take() else { return };
        let (id, tenant) = (slot.id, slot.tenant);
        let weight = answer.weight();
        self.bytes -= weight;
        if let Ok(place) = self.table.find_entry(hash(&id), |found| *found == at) {
            place.remove();
        }
        self.free.push(at);
        self.count_out(tenant, weight);
    }
}
