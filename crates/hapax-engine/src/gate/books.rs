use hapax_core::{Id, Tag};

use super::{
    entry::{Answer, Where},
    index::MOST_PLACES,
    kept::{Held, Kept},
    places::hash,
    shard::Table,
    tenants::Tenants,
};

/// How many places a tenant at its limit looks at for an entry of its own to give up.
const LOOK_AROUND: usize = 64;

/// What only those need who change a shard: how full it is, who holds how much, and what goes next.
///
/// What to drop is found by a hand that goes round the places and spares whatever was asked for since it last came by:
/// the least recently used, near enough, at the price of one bit in a line that a hit has loaded anyway. A list in exact
/// order would cost every hit two more lines of memory.
#[derive(Debug)]
pub(super) struct Books {
    /// Places that were ever used; those below that are free again.
    places: u32,
    free: Vec<u32>,
    hand: u32,
    entries: usize,
    bytes: usize,
    tenants: Tenants,
    held: Vec<Option<Held>>,
    free_held: Vec<usize>,
    most_entries: usize,
    most_bytes: usize,
    share: usize,
    share_bytes: usize,
}

impl Books {
    pub(super) fn new(most_entries: usize, most_bytes: usize, share: usize, share_bytes: usize) -> Self {
        Self {
            places: 0,
            free: Vec::new(),
            hand: 0,
            entries: 0,
            bytes: 0,
            tenants: Tenants::default(),
            held: Vec::new(),
            free_held: Vec::new(),
            most_entries: most_entries.min(MOST_PLACES),
            most_bytes,
            share,
            share_bytes,
        }
    }

    pub(super) const fn most_entries(&self) -> usize {
        self.most_entries
    }

    pub(super) const fn len(&self) -> usize {
        self.entries
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn held(&self, number: usize) -> Option<&Held> {
        self.held.get(number)?.as_ref()
    }

    /// Forgets all entries and returns what they were, to be freed without the lock. The places stay, free.
    pub(super) fn clear(&mut self, table: &Table) -> Self {
        for head in (0..self.places).filter_map(|place| table.places.head(place)) {
            head.set_free();
        }
        let empty = Self::new(self.most_entries, self.most_bytes, self.share, self.share_bytes);
        std::mem::replace(self, empty)
    }

    pub(super) fn insert(&mut self, table: &Table, id: &Id, tenant: Tag, mut answer: Answer, kept: Kept<'_>) {
        if let Some((place, _)) = table.find(id) {
            self.remove(table, place);
        }
        let weight = kept.weight();
        if weight > self.most_bytes || !self.room_within_share(table, tenant, weight) {
            return;
        }
        while self.entries >= self.most_entries || self.bytes + weight > self.most_bytes {
            if !self.drop_one(table) {
                return;
            }
        }
        let place = self.free.pop().unwrap_or(self.places);
        let Some(head) = table.places.make_head(place) else { return };
        answer.place_body(match kept {
            Kept::Beside(body) => {
                let Some(room) = table.places.make_room(place) else { return };
                room.write(body);
                Where::Beside(body.len())
            }
            Kept::Elsewhere(held) => Where::Elsewhere(self.hold(held)),
        });
        head.write(id, self.tenants.count_in(tenant, weight), &answer);
        table.index.insert(hash(id), place, self.entries, |place| table.hash_at(place));
        self.places = self.places.max(place + 1);
        self.entries += 1;
        self.bytes += weight;
    }

    fn hold(&mut self, held: Held) -> usize {
        if let Some(number) = self.free_held.pop() {
            self.held[number] = Some(held);
            return number;
        }
        self.held.push(Some(held));
        self.held.len() - 1
    }

    pub(super) fn remove(&mut self, table: &Table, place: u32) {
        let Some(head) = table.places.head(place) else { return };
        let Some(tenant) = head.tenant() else { return };
        let weight = match head.read().body() {
            Where::Beside(length) => length,
            Where::Elsewhere(number) => {
                self.free_held.push(number);
                self.held[number].take().as_ref().map_or(0, Held::weight)
            }
        };
        table.index.remove(head.hash(), place, |place| table.hash_at(place));
        head.set_free();
        self.free.push(place);
        self.entries -= 1;
        self.bytes -= weight;
        self.tenants.count_out(tenant, weight);
        if self.tenants.mostly_gone(self.entries) {
            self.renumber_tenants(table);
        }
    }

    fn renumber_tenants(&mut self, table: &Table) {
        let moved = self.tenants.renumber();
        for head in (0..self.places).filter_map(|place| table.places.head(place)) {
            if let Some(number) = head.tenant() {
                head.set_tenant(moved[number as usize]);
            }
        }
    }

    /// Moves the hand on to the first entry that nobody asked for since it last came by, and drops it.
    fn drop_one(&mut self, table: &Table) -> bool {
        // Once round takes all marks away. They may be set again meanwhile; the second time round that helps nobody.
        for step in 0..2 * u64::from(self.places) {
            let place = self.advance();
            let Some(head) = table.places.head(place) else { continue };
            let spared = head.take_used() && step < u64::from(self.places);
            if head.tenant().is_some() && !spared {
                self.remove(table, place);
                return true;
            }
        }
        false
    }

    const fn advance(&mut self) -> u32 {
        let place = if self.hand < self.places { self.hand } else { 0 };
        self.hand = place + 1;
        place
    }

    /// A tenant at its limit gives up entries of its own, or goes without: it never takes another's.
    fn room_within_share(&mut self, table: &Table, tenant: Tag, weight: usize) -> bool {
        if weight > self.share_bytes {
            return false;
        }
        let mut looked = 0;
        while let Some(known) = self.tenants.get(tenant) {
            if known.entries < self.share && known.bytes + weight <= self.share_bytes {
                return true;
            }
            if looked == LOOK_AROUND.min(2 * self.places as usize) {
                return false;
            }
            // Asked each time: removing an entry may have renumbered the tenants.
            let number = known.number;
            let place = self.advance();
            let Some(head) = table.places.head(place) else { return false };
            if head.tenant() == Some(number) && !head.take_used() {
                self.remove(table, place);
            }
            looked += 1;
        }
        true
    }
}
