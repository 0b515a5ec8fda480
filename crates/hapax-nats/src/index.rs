//! The index that each process keeps for itself, from the headers of the bucket's messages.
//!
//! A sequence stands for the one version of the one record that has it, so the orders below hold sequences only.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use hapax_core::{Id, Stamp, Tag, Version};
use hapax_store::{Counted, Usage};

use crate::head::{Head, Listed};

#[derive(Debug, Default)]
pub(crate) struct Index {
    rows: HashMap<Id, Row>,
    by_sequence: BTreeMap<u64, Id>,
    leases: BTreeSet<(Stamp, u64)>,
    expiries: BTreeSet<(Stamp, u64)>,
    doubts: BTreeSet<u64>,
    tenants: BTreeSet<(Tag, u64)>,
    counts: HashMap<Tag, Usage>,
    /// Marks of removals, which are forgotten in their order.
    removals: BTreeMap<u64, Stamp>,
    /// No removal up to here is sure to be known.
    pub(crate) forgotten: u64,
    /// The sequence of the message that says so.
    pub(crate) forgotten_at: u64,
    /// Marks that somebody wanted to delete and did not.
    pub(crate) left: Vec<(u64, Id)>,
}

#[derive(Debug)]
struct Row {
    sequence: u64,
    stamp: Stamp,
    listed: Option<Listed>,
}

impl Index {
    pub(crate) fn put(&mut self, id: Id, sequence: u64, head: &Head) {
        if self.rows.get(&id).is_some_and(|row| row.sequence >= sequence) {
            return;
        }
        self.take_out(&id);
        match &head.listed {
            Some(listed) => self.list(sequence, listed),
            None => drop(self.removals.insert(sequence, head.stamp)),
        }
        self.by_sequence.insert(sequence, id);
        self.rows.insert(id, Row { sequence, stamp: head.stamp, listed: head.listed });
    }

    fn list(&mut self, sequence: u64, listed: &Listed) {
        self.leases.extend(listed.lease_end.map(|at| (at, sequence)));
        self.expiries.extend(listed.expiry.map(|at| (at, sequence)));
        if listed.in_doubt {
            self.doubts.insert(sequence);
        }
        self.tenants.insert((listed.tenant, sequence));
        self.count(listed, Turn::Comes);
    }

    fn take_out(&mut self, id: &Id) {
        let Some(row) = self.rows.remove(id) else { return };
        self.by_sequence.remove(&row.sequence);
        self.removals.remove(&row.sequence);
        let Some(listed) = row.listed else { return };
        if let Some(at) = listed.lease_end {
            self.leases.remove(&(at, row.sequence));
        }
        if let Some(at) = listed.expiry {
            self.expiries.remove(&(at, row.sequence));
        }
        self.doubts.remove(&row.sequence);
        self.tenants.remove(&(listed.tenant, row.sequence));
        self.count(&listed, Turn::Goes);
    }

    fn count(&mut self, listed: &Listed, turn: Turn) {
        let tags = [Some(listed.surface), (listed.tenant != listed.surface).then_some(listed.tenant)];
        for tag in tags.into_iter().flatten() {
            let usage = self.counts.entry(tag).or_insert(Usage { exact: true, ..Usage::default() });
            let (number, weight) = match listed.counted {
                Counted::Record => (&mut usage.records, listed.weight),
                Counted::Tombstone => (&mut usage.tombstones, 0),
            };
            match turn {
                Turn::Comes => (*number, usage.bytes) = (*number + 1, usage.bytes.saturating_add(weight)),
                Turn::Goes => (*number, usage.bytes) = (number.saturating_sub(1), usage.bytes.saturating_sub(weight)),
            }
            if usage.records == 0 && usage.tombstones == 0 {
                self.counts.remove(&tag);
            }
        }
    }

    pub(crate) fn usage(&self, tag: Tag) -> Usage {
        self.counts.get(&tag).copied().unwrap_or(Usage { exact: true, ..Usage::default() })
    }

    pub(crate) fn stamp_of(&self, id: &Id, version: Version) -> Option<Stamp> {
        self.rows.get(id).filter(|row| row.sequence == version.0).map(|row| row.stamp)
    }

    pub(crate) fn moments(
        &self,
        which: Moments,
        after: (Stamp, u64),
        until: Stamp,
        most: usize,
    ) -> Found<(Stamp, u64)> {
        let set = match which {
            Moments::Leases => &self.leases,
            Moments::Expiries => &self.expiries,
        };
        if after > (until, u64::MAX) {
            return Found::default();
        }
        let places = set.range((Bound::Excluded(after), Bound::Included((until, u64::MAX))));
        self.found(places.copied(), most, |place| place.1)
    }

    pub(crate) fn doubts(&self, after: u64, most: usize) -> Found<u64> {
        self.found(self.doubts.range((Bound::Excluded(after), Bound::Unbounded)).copied(), most, |place| place)
    }

    pub(crate) fn tenant(&self, tag: Tag, after: u64, most: usize) -> Found<u64> {
        let places = self.tenants.range((Bound::Excluded((tag, after)), Bound::Included((tag, u64::MAX))));
        self.found(places.map(|place| place.1), most, |place| place)
    }

    pub(crate) fn changed(&self, after: u64, limit: usize) -> Vec<(u64, Id)> {
        let places = self.by_sequence.range((Bound::Excluded(after), Bound::Unbounded));
        places.take(limit).map(|(sequence, id)| (*sequence, *id)).collect()
    }

    fn found<P: Copy>(&self, places: impl Iterator<Item = P>, most: usize, sequence: impl Fn(P) -> u64) -> Found<P> {
        let places = places.take(most);
        places.filter_map(|place| Some((place, *self.by_sequence.get(&sequence(place))?))).collect()
    }

    /// The oldest marks in their order, as long as they are older than this.
    pub(crate) fn old_removals(&self, before: Stamp, most: usize) -> Vec<(u64, Id)> {
        let old = self.removals.iter().take_while(|(_, stamp)| **stamp < before).take(most);
        old.filter_map(|(sequence, _)| Some((*sequence, *self.by_sequence.get(sequence)?))).collect()
    }

    /// All of the bucket is known now. What had been forgotten and is still there was left by somebody who ended early.
    pub(crate) fn loaded(&mut self) {
        let through = self.forgotten;
        let left = self.removals.range(..=through);
        self.left = left.filter_map(|(sequence, _)| Some((*sequence, *self.by_sequence.get(sequence)?))).collect();
    }

    /// Drops a mark, if it is still the last that is known of this record.
    pub(crate) fn forget(&mut self, sequence: u64, id: &Id) {
        self.forgotten = self.forgotten.max(sequence);
        if self.rows.get(id).is_some_and(|row| row.sequence == sequence) {
            self.take_out(id);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Comes,
    Goes,
}

pub(crate) type Found<P> = Vec<(P, Id)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moments {
    Leases,
    Expiries,
}
