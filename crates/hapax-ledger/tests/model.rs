//! The ledger against a naive model: every index, every count, the feed, over restarts and cleaning.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::common::*;
use hapax_core::{Id, Millis, Stamp, Version};
use hapax_ledger::{Ledger, disk::RecordingDisk};
use hapax_store::{BodyId, Changes, Counted, Cursor, Due, Entry, Envelope, Index, List, Store, Swap};

const CASES: u64 = 2_000;
const STEPS: u64 = 60;
const IDS: u64 = 10;

type Model = BTreeMap<Id, (Version, Stamp, Option<Envelope>)>;

fn random_record(random: &mut Random, now: Stamp) -> Envelope {
    let due = |random: &mut Random| match random.below(3) {
        0 => None,
        1 => Some(Due::After(Millis(random.below(300)))),
        _ => Some(Due::At(Stamp((now.0 + random.below(400)).saturating_sub(100)))),
    };
    let list = |random: &mut Random| if random.below(2) == 0 { List::Group } else { List::Queue };
    Envelope {
        surface: tag(1 + random.below(2) as u8),
        tenant: tag(3 + random.below(3) as u8),
        counted: if random.below(4) == 0 { Counted::Tombstone } else { Counted::Record },
        lease_end: due(random),
        expiry: due(random),
        gone: if random.below(3) == 0 { Some(Due::After(Millis(random.below(500)))) } else { None },
        in_doubt: random.below(5) == 0,
        beside: if random.below(3) == 0 { 1 + random.below(1 << 30) } else { 0 },
        entries: (0..random.below(3))
            .map(|_| Entry { list: list(random), tag: tag(7 + random.below(2) as u8), order: random.below(4) })
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        ..envelope(vec![random.next() as u8; random.below(400) as usize])
    }
}

/// All pages of a scan, with small pages.
fn all(ledger: &Ledger, index: Index, random: &mut Random) -> Vec<Id> {
    let mut found = Vec::new();
    let mut after: Option<Cursor> = None;
    loop {
        let page = now(ledger.scan(index, after.as_ref(), 1 + random.below(4) as usize)).unwrap();
        found.extend(page.items);
        match page.next {
            None => return found,
            next => after = next,
        }
    }
}

fn there(model: &Model, now: Stamp) -> impl Iterator<Item = (Id, Version, Stamp, &Envelope)> {
    model.iter().filter_map(move |(id, (version, stamp, record))| {
        let record = record.as_ref()?;
        let gone = record.gone.is_some_and(|gone| gone.resolve(*stamp) <= now);
        (!gone).then_some((*id, *version, *stamp, record))
    })
}

fn ordered<K: Ord>(found: impl Iterator<Item = (K, Id)>) -> Vec<Id> {
    let mut found: Vec<_> = found.collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.into_iter().map(|(_, id)| id).collect()
}

/// By name: whose they are.
type Bodies = BTreeMap<BodyId, Id>;

fn compare_bodies(ledger: &Ledger, model: &Model, bodies: &Bodies, random: &mut Random) {
    let mut found = Bodies::new();
    let mut after: Option<Cursor> = None;
    loop {
        let page = now(ledger.bodies(after.as_ref(), 1 + random.below(4) as usize)).unwrap();
        for info in page.items {
            assert_eq!(info.length, body_bytes(info.body).len() as u64);
            assert_eq!(found.insert(info.body, info.owner), None, "listed twice");
        }
        match page.next {
            None => break,
            next => after = next,
        }
    }
    assert_eq!(found, *bodies);
    for (id, (.., record)) in model {
        has_its_body(ledger, record.as_ref(), &id.to_string());
    }
}

fn compare(ledger: &Ledger, model: &Model, random: &mut Random) {
    let at = now(ledger.get(&id(0))).unwrap().now;
    for number in 0..IDS {
        let snapshot = now(ledger.get(&id(number))).unwrap();
        let nothing = (Version::NEVER, Stamp::default(), None);
        let (version, stamp, _) = model.get(&id(number)).unwrap_or(&nothing);
        let record = there(model, at).find(|there| there.0 == id(number)).map(|there| there.3);
        assert_eq!((snapshot.version, snapshot.stamp, snapshot.record.as_ref()), (*version, *stamp, record));
    }
    let until = Stamp(at.0 + random.below(300));
    let same_set = |index: Index, expected: Vec<Id>, random: &mut Random| {
        let found = all(ledger, index, random);
        let (found_set, expected_set): (BTreeSet<_>, BTreeSet<_>) = (found.iter().collect(), expected.iter().collect());
        assert!(found_set.is_superset(&expected_set), "{index:?}: {found:?}, not {expected:?}");
        let there: BTreeSet<_> = there(model, at).map(|there| there.0).collect();
        // More than what matches may be found, but nothing twice.
        assert_eq!(found.len(), found_set.len(), "{index:?}: {found:?}");
        found.into_iter().filter(|id| there.contains(id) && expected_set.contains(id)).collect::<Vec<_>>()
    };
    let moment = |due: Option<Due>, stamp: Stamp| due.map(|due| due.resolve(stamp)).filter(|at| *at <= until);
    let leases =
        ordered(there(model, at).filter_map(|(id, _, stamp, r)| Some(((moment(r.lease_end, stamp)?, id), id))));
    assert_eq!(same_set(Index::LeaseEnd { until }, leases.clone(), random), leases);
    let expiries = ordered(there(model, at).filter_map(|(id, _, stamp, r)| Some((moment(r.expiry, stamp)?, id))));
    let found = same_set(Index::Expiry { until }, expiries.clone(), random);
    assert_eq!(found.len(), expiries.len());
    let moments = |ids: &[Id]| {
        let of = |id: &Id| {
            let (_, stamp, record) = &model[id];
            record.as_ref().and_then(|record| record.expiry).map(|due| due.resolve(*stamp))
        };
        ids.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(moments(&found), moments(&expiries), "earliest first");
    let doubts = ordered(there(model, at).filter(|there| there.3.in_doubt).map(|there| (there.0, there.0)));
    assert_eq!(same_set(Index::InDoubt, doubts.clone(), random), doubts);
    for number in 3..6 {
        let ages = there(model, at).filter(|there| there.3.tenant == tag(number)).map(|there| (there.1, there.0));
        let ages = ordered(ages);
        assert_eq!(same_set(Index::TenantAge(tag(number)), ages.clone(), random), ages, "tenant {number}");
    }
    for list in [List::Group, List::Queue] {
        for number in 7..9 {
            let entries = there(model, at).flat_map(|there| there.3.entries.iter().map(move |entry| (entry, there.0)));
            let of_list = entries.filter(|(entry, _)| entry.list == list && entry.tag == tag(number));
            let members = ordered(of_list.map(|(entry, id)| ((entry.order, id), id)));
            let index = if list == List::Group { Index::Group(tag(number)) } else { Index::Queue(tag(number)) };
            let still: BTreeSet<_> = there(model, at).map(|there| there.0).collect();
            let mut found = all(ledger, index, random);
            found.retain(|id| still.contains(id));
            assert_eq!(found, members, "{index:?}");
        }
    }
    for number in 1..6 {
        let usage = now(ledger.usage(tag(number))).unwrap();
        let of = |r: &Envelope| r.surface == tag(number) || r.tenant == tag(number);
        let held = there(model, at).map(|there| there.3).filter(|record| of(record));
        assert!(usage.counts(held), "tag {number}: {usage:?}");
    }
}

#[test]
fn random_histories_agree_with_the_model() {
    let mut random = Random::from_env("model");
    for case in 0..CASES {
        let (disk, clock) = (RecordingDisk::untraced(), ManualClock::new());
        let options = small("/l").disk(Arc::new(disk.clone())).clock(clock.clone());
        let mut ledger = Stepped::open(options.clone()).unwrap();
        let (mut model, mut bodies) = (Model::new(), Bodies::new());
        let mut cursor: Option<Cursor> = None;
        let mut seen: BTreeMap<Id, (Version, bool)> = BTreeMap::new();
        for step in 0..STEPS {
            clock.advance(random.below(60));
            let id = id(random.below(IDS));
            let current = ledger.get(id).unwrap();
            let wrong = random.below(8) == 0;
            let expected = if wrong { Version(current.version.0 + 1 + random.below(3)) } else { current.version };
            let mut next = (random.below(5) > 0).then(|| random_record(&mut random, current.now));
            if let Some(record) = next.as_mut().filter(|_| random.below(4) == 0) {
                let body = random_body(&mut random);
                now(ledger.ledger.put_body(&id, body, body_bytes(body))).unwrap();
                bodies.insert(body, id);
                record.payload = naming(body).into();
            }
            match ledger.swap(id, expected, next.clone()).unwrap() {
                Swap::Swapped { version, stamp } => {
                    assert!(!wrong && version > current.version);
                    let before = model.insert(id, (version, stamp, next)).and_then(|before| before.2);
                    if let Some(body) = before.as_ref().and_then(named) {
                        now(ledger.ledger.drop_body(body)).unwrap();
                        bodies.remove(&body);
                    }
                }
                Swap::Conflict(snapshot) => assert!(wrong && snapshot.version == current.version),
            }
            match random.below(10) {
                0 => {
                    drop(ledger);
                    ledger = Stepped::open(options.clone()).unwrap();
                }
                1 | 2 => ledger.settle(),
                3 | 4 => {
                    ledger.stepper.keep();
                }
                _ => {}
            }
            if random.below(4) == 0 {
                compare(&ledger.ledger, &model, &mut random);
                compare_bodies(&ledger.ledger, &model, &bodies, &mut random);
            }
            if random.below(3) == 0 {
                match now(ledger.ledger.changes(cursor.as_ref(), 1 + random.below(5) as usize)).unwrap() {
                    Changes::Gap { oldest } => {
                        // Take a snapshot, then go on from there.
                        cursor = Some(oldest);
                        seen = model
                            .iter()
                            .map(|(id, (version, _, record))| (*id, (*version, record.is_some())))
                            .collect();
                    }
                    Changes::Page { items, next } => {
                        for change in items {
                            let known =
                                seen.insert(change.id, (change.snapshot.version, change.snapshot.record.is_some()));
                            assert!(
                                known.is_none_or(|known| known.0 <= change.snapshot.version),
                                "case {case} step {step}"
                            );
                        }
                        cursor = Some(next);
                    }
                }
            }
        }
        // The feed to its end: now its reader knows what the model knows.
        loop {
            match now(ledger.ledger.changes(cursor.as_ref(), 3)).unwrap() {
                Changes::Gap { oldest } => {
                    cursor = Some(oldest);
                    seen = model.iter().map(|(id, (version, _, record))| (*id, (*version, record.is_some()))).collect();
                }
                Changes::Page { items, .. } if items.is_empty() => break,
                Changes::Page { items, next } => {
                    seen.extend(items.iter().map(|c| (c.id, (c.snapshot.version, c.snapshot.record.is_some()))));
                    cursor = Some(next);
                }
            }
        }
        for (id, (version, _, _)) in &model {
            assert_eq!(seen.get(id).map(|seen| seen.0), Some(*version), "case {case}: the feed has missed {id}");
        }
        compare(&ledger.ledger, &model, &mut random);
        compare_bodies(&ledger.ledger, &model, &bodies, &mut random);
    }
}

/// More records than a front holds, so that it is trimmed, runs dry and is filled again.
#[test]
fn an_index_larger_than_its_fronts_still_finds_everything() {
    let mut random = Random::from_env("fronts");
    let (disk, clock) = (RecordingDisk::untraced(), ManualClock::new());
    let options = small("/l").segment_bytes(1 << 20, 4 << 20).removal_memory(Millis(1_000));
    let mut ledger = Stepped::open(options.disk(Arc::new(disk)).clock(clock.clone())).unwrap();
    let start = ledger.get(id(0)).unwrap().now;
    const MANY: u64 = 60_000;
    let mut batch = Vec::new();
    let mut expiries = BTreeMap::new();
    for number in 0..MANY {
        let expiry = 1_000 + random.below(100_000);
        expiries.insert(number, expiry);
        let record = Envelope {
            expiry: Some(Due::After(Millis(expiry))),
            gone: Some(Due::After(Millis(expiry + 10))),
            tenant: tag(3 + (number % 2) as u8),
            ..envelope("x")
        };
        batch.push((id(number), Version::NEVER, Some(record)));
        if batch.len() == 500 {
            ledger.swap_all(std::mem::take(&mut batch)).into_iter().for_each(|answer| drop(answer.unwrap()));
        }
    }
    let until = |ms: u64| Index::Expiry { until: Stamp(start.0 + ms) };
    let due = |ms: u64| expiries.values().filter(|at| **at <= ms).count();
    for ms in [500, 1_500, 40_000, 80_000, 101_000] {
        let mut found = 0;
        let mut after = None;
        loop {
            let page = now(ledger.ledger.scan(until(ms), after.as_ref(), 5_000)).unwrap();
            found += page.items.len();
            match page.next {
                None => break,
                next => after = next,
            }
        }
        assert_eq!(found, due(ms), "until {ms}");
    }
    for number in 3..5 {
        let mut found = BTreeSet::new();
        let mut after = None;
        loop {
            let page = now(ledger.ledger.scan(Index::TenantAge(tag(number)), after.as_ref(), 7_000)).unwrap();
            found.extend(page.items);
            match page.next {
                None => break,
                next => after = next,
            }
        }
        assert_eq!(found.len() as u64, MANY / 2);
    }
    for step in 1..=12 {
        clock.advance(9_000);
        ledger.settle();
        let gone = expiries.values().filter(|at| **at + 10 <= step * 9_000).count() as u64;
        assert_eq!(now(ledger.ledger.usage(tag(1))).unwrap().records, MANY - gone, "after {step} steps");
    }
    clock.advance(5_000);
    ledger.settle();
    let status = ledger.ledger.status();
    assert_eq!((status.slots, status.needed_bytes), (0, 0), "{status:?}");
}
