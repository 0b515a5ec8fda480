//! What a tenant's records take is counted to the byte, over cleanings and restarts, and is gone with them.

#![allow(clippy::disallowed_methods, reason = "files of the test's own")]

use std::sync::Arc;

use crate::common::*;
use hapax_core::Millis;
use hapax_ledger::{Options, disk::RealDisk};
use hapax_store::{Counted, Due, Envelope, Store, Usage};

fn usage(ledger: &Stepped) -> (Usage, Usage) {
    (now(ledger.ledger.usage(tag(1))).unwrap(), now(ledger.ledger.usage(tag(2))).unwrap())
}

/// Records live long among many that do not: they are carried to the end of the log again and again, the ledger is opened with its
/// hints, and once without any. Some have bodies beside them, one had one and has none any more, one is only a tombstone.
#[test]
fn what_a_tenant_takes_outlives_cleaning_and_restarts() {
    let (dir, clock) = (TempDir::new("bytes"), ManualClock::new());
    let options = Options::new(&dir.0)
        .segment_bytes(4096, 4096)
        .removal_memory(Millis(1))
        .clock(clock.clone())
        .disk(Arc::new(RealDisk));
    let mut ledger = Stepped::open(options.clone()).unwrap();
    let life = Some(Due::After(Millis(1_000_000)));
    let mut kept = Vec::new();
    for number in 0..12 {
        let beside = if number % 3 == 0 { 0 } else { 100_000 * number };
        let record = Envelope { gone: life, beside, ..envelope(vec![1; 40 * number as usize]) };
        ledger.put(id(number), Some(Envelope { gone: life, beside: 7 << 30, ..live("before it was done") }));
        ledger.put(id(number), Some(record.clone()));
        kept.push(record);
    }
    let stone = Envelope { gone: life, counted: Counted::Tombstone, ..envelope("was here") };
    ledger.put(id(12), Some(Envelope { gone: life, beside: 5_000, ..envelope("is evicted") }));
    ledger.put(id(12), Some(stone.clone()));
    kept.push(stone);
    let before = usage(&ledger);
    assert!(before.0.counts(&kept), "{before:?}");
    assert_eq!(before.0, before.1);
    for number in 100..400 {
        let short = Envelope { gone: Some(Due::After(Millis(1))), beside: 1 << 20, ..envelope(vec![2; 700]) };
        ledger.put(id(number), Some(short));
        clock.advance(10);
        ledger.settle();
        assert_eq!(usage(&ledger), before, "after {number}");
    }
    assert!(ledger.ledger.status().carried > 12, "{:?}", ledger.ledger.status());
    drop(ledger);

    let ledger = Stepped::open(options.clone()).unwrap();
    let recovered = ledger.ledger.recovered().clone();
    assert!(recovered.segments > 1 && recovered.read_whole == 1, "the hints were not used: {recovered:?}");
    assert_eq!(usage(&ledger), before, "from hints");
    drop(ledger);
    for entry in std::fs::read_dir(&dir.0).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "hint") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let ledger = Stepped::open(options.clone()).unwrap();
    assert_eq!(usage(&ledger), before, "from the segments themselves");
    // Nobody has come by to see them go.
    clock.advance(1_000_000);
    let nothing = Usage { exact: true, ..Usage::default() };
    assert_eq!(usage(&ledger), (nothing, nothing));
    drop(ledger);
    let ledger = Stepped::open(options).unwrap();
    assert_eq!(usage(&ledger), (nothing, nothing), "after they were gone");
}
