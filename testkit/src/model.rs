//! A store against a naive model of it: one map, every answer worked out by looking at all there is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use hapax_core::{Id, Millis, Stamp, Version};
use hapax_store::{
    Changes, Counted, Cursor, Due, Entry, Envelope, Index, Kind, Level, List, Seeded, Snapshot, Store, Swap,
};

use crate::sample::{id, tag};

const STEPS: u64 = 60;
const END: Stamp = Stamp(u64::MAX);

type Held = (Version, Stamp, Option<Envelope>);

/// One random history on a store that nobody else uses. `HAPAX_SEED` plays it again.
pub async fn play(store: Arc<dyn Store>, seed: u64) {
    let mut world =
        World { store, dice: Seeded::new(seed), model: BTreeMap::new(), feeds: vec![(None, BTreeMap::new())] };
    for _ in 0..STEPS {
        match world.dice.below(20) {
            0..14 => world.swap().await,
            14..18 => world.get().await,
            18 => world.look().await,
            _ => world.follow().await,
        }
    }
    world.look().await;
    world.every_feed_ends_where_the_model_is().await;
}

struct World {
    store: Arc<dyn Store>,
    dice: Seeded,
    model: BTreeMap<Id, Held>,
    /// Cursors ever given out, and what their reader knows.
    feeds: Vec<(Option<Cursor>, BTreeMap<Id, Version>)>,
}

impl World {
    fn some_id(&mut self) -> Id {
        id(self.dice.below(8))
    }

    fn held(&self, id: Id) -> Held {
        self.model.get(&id).cloned().unwrap_or((Version::NEVER, Stamp(0), None))
    }

    fn same(&self, id: Id, seen: &Snapshot) {
        let (version, stamp, record) = self.held(id);
        assert_eq!((seen.version, seen.stamp, &seen.record), (version, stamp, &record));
        assert!(seen.now >= seen.stamp);
    }

    async fn get(&mut self) {
        let id = self.some_id();
        let seen = self.store.get(&id).await.unwrap();
        self.same(id, &seen);
    }

    async fn swap(&mut self) {
        let id = self.some_id();
        let (version, stamp, _) = self.held(id);
        let expected = match self.dice.below(10) {
            0 => Version::NEVER,
            1 => Version(version.0 + 1),
            2 => {
                self.dice.pick(&self.model.values().map(|held| held.0).collect::<Vec<_>>()).copied().unwrap_or(version)
            }
            _ => version,
        };
        let next = if self.dice.chance(800) { Some(self.random(stamp)) } else { None };
        match self.store.swap(&id, expected, next.clone()).await.unwrap() {
            Swap::Swapped { version: new, stamp: at } => {
                assert_eq!(expected, version, "a swap on another version went through");
                assert!(new > version && at >= stamp, "{new} at {at:?} after {version} at {stamp:?}");
                self.model.insert(id, (new, at, next));
            }
            Swap::Conflict(seen) => {
                assert_ne!(expected, version, "a swap on the current version is refused");
                self.same(id, &seen);
            }
        }
    }

    fn random(&mut self, near: Stamp) -> Envelope {
        let dice = &mut self.dice;
        let due = |dice: &mut Seeded| match dice.below(4) {
            0 => None,
            1 => Some(Due::After(Millis(dice.below(20)))),
            2 => Some(Due::At(Stamp(near.0 + dice.below(40)))),
            _ => Some(Due::At(Stamp(dice.below(1_000)))),
        };
        let entries = (0..dice.below(4)).map(|_| Entry {
            list: if dice.chance(500) { List::Group } else { List::Queue },
            tag: tag(dice.below(2) as u8),
            order: if dice.chance(900) { dice.below(3) } else { u64::MAX - dice.below(3) },
        });
        let entries = entries.collect();
        Envelope {
            kind: Kind(dice.below(7) as u8),
            surface: tag(2 + dice.below(2) as u8),
            tenant: tag(3 + dice.below(3) as u8),
            counted: if dice.chance(700) { Counted::Record } else { Counted::Tombstone },
            entries,
            lease_end: due(dice),
            expiry: due(dice),
            gone: None,
            in_doubt: dice.chance(300),
            beside: dice.below(3) * 100_000,
            payload: Bytes::copy_from_slice(&dice.bytes::<4>()),
        }
    }

    fn records(&self) -> impl Iterator<Item = (Id, Version, Stamp, &Envelope)> {
        self.model.iter().filter_map(|(id, (version, stamp, record))| Some((*id, *version, *stamp, record.as_ref()?)))
    }

    async fn scan(&mut self, index: Index) -> Vec<Id> {
        // A page costs a trip: most are large.
        let limit = if self.dice.chance(250) { 1 + self.dice.below(4) as usize } else { 10 };
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.scan(index, after.as_ref(), limit).await.unwrap();
            assert!(page.items.len() <= limit);
            found.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => return found,
            }
        }
    }

    async fn look(&mut self) {
        let until = match self.dice.below(3) {
            0 => END,
            1 => Stamp(self.dice.below(1_000)),
            _ => self.model.values().map(|held| held.1).max().unwrap_or(END),
        };
        let moment = |due: Option<Due>, stamp: Stamp| due.map(|due| due.resolve(stamp)).filter(|at| *at <= until);
        let leases: BTreeMap<Id, Stamp> =
            self.records().filter_map(|(id, _, stamp, record)| Some((id, moment(record.lease_end, stamp)?))).collect();
        self.moments(Index::LeaseEnd { until }, &leases).await;
        let expiries: BTreeMap<Id, Stamp> =
            self.records().filter_map(|(id, _, stamp, record)| Some((id, moment(record.expiry, stamp)?))).collect();
        self.moments(Index::Expiry { until }, &expiries).await;
        let doubts: BTreeSet<Id> = self.records().filter(|one| one.3.in_doubt).map(|one| one.0).collect();
        assert_eq!(self.scan(Index::InDoubt).await.into_iter().collect::<BTreeSet<_>>(), doubts);
        for number in 0..2 {
            self.lists(number).await;
        }
        for number in 2..6 {
            self.usage(number).await;
        }
        for number in 3..6 {
            let mut ages: Vec<_> =
                self.records().filter(|one| one.3.tenant == tag(number)).map(|one| (one.1, one.0)).collect();
            ages.sort_unstable();
            let found = self.scan(Index::TenantAge(tag(number))).await;
            assert_eq!(found, ages.into_iter().map(|(_, id)| id).collect::<Vec<_>>(), "tenant {number}");
        }
    }

    async fn moments(&mut self, index: Index, wanted: &BTreeMap<Id, Stamp>) {
        let found = self.scan(index).await;
        assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), wanted.keys().copied().collect(), "{index:?}");
        assert_eq!(found.len(), wanted.len(), "{index:?} shows one twice");
        assert!(found.is_sorted_by_key(|id| wanted[id]), "{index:?} is out of order");
    }

    async fn lists(&mut self, number: u8) {
        if self.store.level() == Level::Basic {
            return;
        }
        for (list, index) in [(List::Group, Index::Group(tag(number))), (List::Queue, Index::Queue(tag(number)))] {
            let entries = self.records().flat_map(|one| one.3.entries.iter().map(move |entry| (entry, one.0)));
            let own = entries.filter(|(entry, _)| entry.list == list && entry.tag == tag(number));
            let places: BTreeSet<_> = own.map(|(entry, id)| (entry.order, id)).collect();
            let wanted: Vec<Id> = places.into_iter().map(|(_, id)| id).collect();
            assert_eq!(self.scan(index).await, wanted, "{index:?}");
        }
    }

    async fn usage(&self, number: u8) {
        let own = self.records().filter(|one| one.3.surface == tag(number) || one.3.tenant == tag(number));
        let held: Vec<&Envelope> = own.map(|one| one.3).collect();
        let usage = self.store.usage(tag(number)).await.unwrap();
        assert!(!usage.exact || usage.counts(held.iter().copied()), "tag {number}: {usage:?} where {held:?} is held");
    }

    /// Reads on from any cursor ever given out.
    async fn follow(&mut self) {
        let from = self.dice.below(self.feeds.len() as u64) as usize;
        let (cursor, mut known) = self.feeds[from].clone();
        match self.store.changes(cursor.as_ref(), 1 + self.dice.below(5) as usize).await.unwrap() {
            Changes::Gap { .. } => panic!("a gap where nothing was forgotten"),
            Changes::Page { items, next } => {
                for change in items {
                    self.same(change.id, &change.snapshot);
                    known.insert(change.id, change.snapshot.version);
                }
                self.feeds.push((Some(next), known));
            }
        }
    }

    async fn every_feed_ends_where_the_model_is(&mut self) {
        let wanted: BTreeMap<Id, Version> = self.model.iter().map(|(id, held)| (*id, held.0)).collect();
        for (mut cursor, mut known) in std::mem::take(&mut self.feeds).into_iter().rev().take(3) {
            loop {
                match self.store.changes(cursor.as_ref(), 5).await.unwrap() {
                    Changes::Gap { .. } => panic!("a gap where nothing was forgotten"),
                    Changes::Page { items, .. } if items.is_empty() => break,
                    Changes::Page { items, next } => {
                        known.extend(items.into_iter().map(|change| (change.id, change.snapshot.version)));
                        cursor = Some(next);
                    }
                }
            }
            assert_eq!(known, wanted, "what a reader of the feed knows at its end");
        }
    }
}
