//! What the memory store promises beyond the suite.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Id, Millis, Stamp, Tag, Version};
use hapax_store::{
    Changes, Clock, Counted, Cursor, Due, Entry, Envelope, Index, Kind, List, ManualClock, MemoryStore, Store,
    StoreError, Swap, SystemClock,
};

fn id(number: u64) -> Id {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    Id(bytes)
}

fn record(payload: u8) -> Envelope {
    Envelope {
        kind: Kind::OPERATION,
        surface: Tag([1; 16]),
        tenant: Tag([2; 16]),
        counted: Counted::Record,
        lease_end: None,
        expiry: None,
        gone: None,
        in_doubt: false,
        entries: vec![],
        beside: 0,
        payload: Bytes::from(vec![payload]),
    }
}

fn timed(window: Millis) -> (Arc<ManualClock>, MemoryStore) {
    let clock = Arc::new(ManualClock::new(Stamp(1_000_000)));
    let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>).with_late_write_window(window);
    (clock, store)
}

async fn write(store: &MemoryStore, id: Id, next: Option<Envelope>) -> (Version, Stamp) {
    let held = store.get(&id).await.unwrap();
    match store.swap(&id, held.version, next).await.unwrap() {
        Swap::Swapped { version, stamp } => (version, stamp),
        Swap::Conflict(held) => panic!("alone, and yet {held:?}"),
    }
}

/// The clock jumps a year ahead and back. Stamps of one id never follow it back, and no other id is held up by it.
#[tokio::test]
async fn a_clock_that_jumps_back_does_not_turn_a_record_back() {
    let (clock, store) = timed(Millis::from_secs(60));
    clock.advance(Millis::from_days(365));
    let (_, ahead) = write(&store, id(1), Some(record(1))).await;
    clock.step_back(Millis::from_days(365));
    let held = store.get(&id(1)).await.unwrap();
    assert_eq!((held.stamp, held.now), (ahead, ahead));
    let due = Envelope { lease_end: Some(Due::After(Millis(5))), ..record(2) };
    let (_, stamp) = write(&store, id(1), Some(due)).await;
    assert_eq!(stamp, ahead);
    let until = ahead.plus(Millis(5));
    assert_eq!(store.scan(Index::LeaseEnd { until }, None, 9).await.unwrap().items, [id(1)]);
    let (_, other) = write(&store, id(2), Some(record(1))).await;
    assert_eq!(other, Stamp(1_000_000));
}

/// A removal while the clock was a year ahead must not be kept for a year, nor hold up the others behind it.
#[tokio::test]
async fn removals_are_forgotten_after_a_jump_too() {
    let (clock, store) = timed(Millis::from_secs(60));
    clock.advance(Millis::from_days(365));
    write(&store, id(1), None).await;
    clock.step_back(Millis::from_days(365));
    for number in 10..1_000 {
        write(&store, id(number), Some(record(1))).await;
    }
    assert_ne!(store.get(&id(1)).await.unwrap().version, Version::NEVER, "the window counts from the jump");
    clock.advance(Millis::from_secs(61));
    for number in 10..1_000 {
        write(&store, id(number), Some(record(1))).await;
    }
    assert_eq!(store.get(&id(1)).await.unwrap().version, Version::NEVER);
}

#[tokio::test]
async fn a_forgotten_removal_reads_as_never_and_is_a_gap_in_the_feed() {
    let (clock, store) = timed(Millis::from_secs(60));
    write(&store, id(1), Some(record(1))).await;
    let Changes::Page { next: before, .. } = store.changes(None, 9).await.unwrap() else { panic!("a gap") };
    let (removed, _) = write(&store, id(1), None).await;
    let Changes::Page { next: behind, .. } = store.changes(Some(&before), 9).await.unwrap() else { panic!("a gap") };
    clock.advance(Millis::from_secs(61));
    for number in 10..1_000 {
        write(&store, id(number), Some(record(1))).await;
    }
    assert_eq!(store.get(&id(1)).await.unwrap().version, Version::NEVER);
    // Who has seen the removal misses nothing; who has not is told; who starts now never knew the record.
    assert!(matches!(store.changes(Some(&behind), 9).await.unwrap(), Changes::Page { .. }));
    let Changes::Gap { oldest } = store.changes(Some(&before), 9).await.unwrap() else { panic!("no gap") };
    for start in [None, Some(oldest)] {
        let mut seen = 0;
        let mut after = start;
        loop {
            let Changes::Page { items, next } = store.changes(after.as_ref(), 100).await.unwrap() else {
                panic!("a gap for somebody who starts")
            };
            if items.is_empty() {
                break;
            }
            seen += items.len();
            after = Some(next);
        }
        assert_eq!(seen, 990);
    }
    let (again, _) = write(&store, id(1), Some(record(2))).await;
    assert!(again > removed);
}

/// Nothing is dropped behind anybody's back: the sweeper finds the record by its expiry and removes it.
#[tokio::test]
async fn a_record_past_gone_stays_until_it_is_removed() {
    let (clock, store) = timed(Millis::from_secs(60));
    let gone = Envelope { gone: Some(Due::After(Millis(1))), ..record(1) };
    let (version, _) = write(&store, id(1), Some(gone)).await;
    clock.advance(Millis::from_days(1));
    assert_eq!(store.get(&id(1)).await.unwrap().version, version);
}

#[tokio::test]
async fn too_many_entries_and_foreign_cursors_are_refused() {
    let store = MemoryStore::default();
    let entry = Entry { list: List::Group, tag: Tag([3; 16]), order: 1 };
    let crowded = Envelope { entries: vec![entry; Envelope::MOST_ENTRIES + 1], ..record(1) };
    assert!(matches!(store.swap(&id(1), Version::NEVER, Some(crowded)).await, Err(StoreError::Unsupported { .. })));
    assert_eq!(store.get(&id(1)).await.unwrap().version, Version::NEVER);
    let foreign = Cursor(Bytes::from_static(b"nonsense"));
    assert!(matches!(store.scan(Index::InDoubt, Some(&foreign), 1).await, Err(StoreError::Unsupported { .. })));
    assert!(matches!(store.changes(Some(&foreign), 1).await, Err(StoreError::Unsupported { .. })));
    assert!(matches!(store.bodies(Some(&foreign), 1).await, Err(StoreError::Unsupported { .. })));
}

/// One id written over and over: what was overtaken does not pile up, and the pages stay right.
#[tokio::test]
async fn overtaken_entries_do_not_hide_the_others() {
    let store = MemoryStore::default();
    write(&store, id(1), Some(record(1))).await;
    for _ in 0..10_000 {
        write(&store, id(2), Some(record(2))).await;
    }
    let age = store.scan(Index::TenantAge(Tag([2; 16])), None, 1).await.unwrap();
    assert_eq!(age.items, [id(1)]);
    let age = store.scan(Index::TenantAge(Tag([2; 16])), age.next.as_ref(), 1).await.unwrap();
    assert_eq!(age.items, [id(2)]);
}

#[test]
fn the_system_clock_moves_on() {
    let clock = SystemClock::new();
    let before = clock.now();
    let (_unused, never) = std::sync::mpsc::sync_channel::<()>(1);
    let _timed_out = never.recv_timeout(std::time::Duration::from_millis(5));
    assert!(clock.now() >= before.plus(Millis(4)));
}
