//! Who reads the feed from its beginning is told of all that is there, whatever cleaning has done to the log.

use std::{collections::BTreeMap, sync::Arc};

use crate::common::*;
use hapax_core::{Id, Millis, Version};
use hapax_ledger::disk::RecordingDisk;
use hapax_store::{Changes, Cursor, Due, Envelope, Store, Swap};

fn written(ledger: &mut Stepped, number: u64, life: u64) -> Version {
    let expected = ledger.get(id(number)).unwrap().version;
    let record = Envelope { gone: Some(Due::After(Millis(life))), ..envelope(vec![7; 600]) };
    match ledger.swap(id(number), expected, Some(record)).unwrap() {
        Swap::Swapped { version, .. } => version,
        Swap::Conflict(snapshot) => panic!("{snapshot:?}"),
    }
}

/// Pages from a cursor on until there are no more: the newest version told of each record that is there.
fn told(ledger: &Stepped, cursor: &mut Option<Cursor>, limit: usize, heard: &mut BTreeMap<Id, Version>) {
    loop {
        match now(ledger.ledger.changes(cursor.as_ref(), limit)).unwrap() {
            // Too slow: it begins again.
            Changes::Gap { .. } => {
                *cursor = None;
                heard.clear();
            }
            Changes::Page { items, next } => {
                *cursor = Some(next);
                if items.is_empty() {
                    return;
                }
                for change in items {
                    if change.snapshot.record.is_some() {
                        heard.insert(change.id, change.snapshot.version);
                    } else {
                        heard.remove(&change.id);
                    }
                }
            }
        }
    }
}

#[test]
fn who_begins_is_told_of_what_was_carried_on_and_then_of_what_changes() {
    for limit in [1, 2, 7, 1_000] {
        let (disk, clock) = (RecordingDisk::untraced(), ManualClock::new());
        let options = small("/l").removal_memory(Millis(20)).disk(Arc::new(disk)).clock(clock.clone());
        let mut ledger = Stepped::open(options.clone()).unwrap();
        let mut there = BTreeMap::new();
        for number in 0..300 {
            clock.advance(5);
            let lives_on = number % 10 == 0;
            let version = written(&mut ledger, number, if lives_on { 10_000_000 } else { 100 });
            if lives_on {
                there.insert(id(number), version);
            }
            ledger.settle();
        }
        clock.advance(10_000);
        ledger.settle();
        assert!(ledger.ledger.status().carried > 0, "nothing was carried on: {:?}", ledger.ledger.status());

        let (mut cursor, mut heard) = (None, BTreeMap::new());
        told(&ledger, &mut cursor, limit, &mut heard);
        assert_eq!(heard, there, "{limit} at a time");

        // From here on only what changes, also over a restart and further cleaning.
        there.insert(id(20), written(&mut ledger, 20, 10_000_000));
        let mut later = BTreeMap::new();
        told(&ledger, &mut cursor, limit, &mut later);
        assert_eq!(later.len(), 1, "{limit} at a time: {later:?}");
        drop(ledger);
        let mut ledger = Stepped::open(options).unwrap();
        there.insert(id(1_000), written(&mut ledger, 1_000, 10_000_000));
        told(&ledger, &mut cursor, limit, &mut later);
        heard.extend(later);
        assert_eq!(heard, there, "{limit} at a time");
    }
}

#[test]
fn what_is_moved_and_written_while_somebody_begins_is_told_all_the_same() {
    let mut random = Random::from_env("beginning");
    let (disk, clock) = (RecordingDisk::untraced(), ManualClock::new());
    let options = small("/l").removal_memory(Millis(20)).disk(Arc::new(disk)).clock(clock.clone());
    let mut ledger = Stepped::open(options).unwrap();
    let mut there = BTreeMap::new();
    let (mut cursor, mut heard) = (None, BTreeMap::new());
    for step in 0..2_000 {
        clock.advance(5);
        let number = random.below(400);
        let lives_on = number.is_multiple_of(10);
        let version = written(&mut ledger, number, if lives_on { 10_000_000 } else { 100 });
        if lives_on {
            there.insert(id(number), version);
        }
        ledger.settle();
        if step > 500 && random.below(3) == 0 {
            match now(ledger.ledger.changes(cursor.as_ref(), 1 + random.below(4) as usize)).unwrap() {
                Changes::Page { items, next } => {
                    cursor = Some(next);
                    heard.extend(items.iter().map(|change| (change.id, change.snapshot.version)));
                }
                // It was too slow, and begins again.
                Changes::Gap { .. } => cursor = None,
            }
        }
    }
    told(&ledger, &mut cursor, 3, &mut heard);
    for (id, version) in there {
        assert_eq!(heard.get(&id), Some(&version), "{id}");
    }
}

#[test]
fn what_was_told_and_is_removed_and_forgotten_while_somebody_begins_is_told_as_removed() {
    let (disk, clock) = (RecordingDisk::untraced(), ManualClock::new());
    let options = small("/l").removal_memory(Millis(20)).disk(Arc::new(disk)).clock(clock.clone());
    let mut ledger = Stepped::open(options).unwrap();
    let versions: Vec<Version> = (0..4).map(|number| written(&mut ledger, number, 10_000_000)).collect();
    let Changes::Page { items, next } = now(ledger.ledger.changes(None, 1)).unwrap() else { panic!("a gap at once") };
    let mut heard: BTreeMap<Id, Version> = items.iter().map(|change| (change.id, change.snapshot.version)).collect();
    assert_eq!(heard, BTreeMap::from([(id(0), versions[0])]));

    let _removed = ledger.swap(id(0), versions[0], None).unwrap();
    clock.advance(10_000);
    // The next write is what lets it forget.
    let last = written(&mut ledger, 9, 10_000_000);
    ledger.settle();
    told(&ledger, &mut Some(next), 1, &mut heard);
    let there = [(id(1), versions[1]), (id(2), versions[2]), (id(3), versions[3]), (id(9), last)];
    assert_eq!(heard, BTreeMap::from(there));
}
