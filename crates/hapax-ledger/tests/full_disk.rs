//! A disk without room: attempts under way may end, and the disk is left in peace.

use std::{path::Path, sync::Arc};

use crate::common::*;
use hapax_core::{Millis, Version};
use hapax_ledger::{
    Options,
    disk::{Disk, FaultyDisk, RecordingDisk},
};
use hapax_store::{BodyId, Counted, Due, Envelope, Store as _, StoreError, Swap};

const DIR: &str = "/l";

/// Of a ledger without threads, which does all at once.
fn now<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(work)
}

fn options(disk: Arc<dyn Disk>, clock: &Arc<ManualClock>) -> Options {
    small(DIR).disk(disk).clock(clock.clone()).removal_memory(Millis::from_days(1))
}

/// The disk runs full. New work is refused and nothing else: attempts under way may end, nothing is poisoned, and when
/// there is room again it goes on.
#[test]
fn on_a_full_disk_attempts_under_way_may_end_and_new_ones_are_refused() {
    let (disk, clock) = (FaultyDisk::new(Arc::new(RecordingDisk::default())), ManualClock::new());
    let options = options(Arc::new(disk.clone()), &clock).removal_memory(Millis(10));
    let mut ledger = Stepped::open(options.clone()).unwrap();
    disk.leave_room(Some(100 * 1024));
    let mut begun = Vec::new();
    let mut refused = 0;
    for number in 0..2_000 {
        let record = Envelope { gone: Some(Due::After(Millis(60_000))), ..live(vec![1; 200]) };
        match ledger.swap(id(number), Version::NEVER, Some(record)) {
            Ok(Swap::Swapped { version, .. }) => begun.push((id(number), version)),
            Err(StoreError::Full { .. }) => {
                refused += 1;
                if refused == 20 {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
        ledger.settle();
    }
    assert_eq!(refused, 20, "{:?}", ledger.ledger.status());
    assert!(ledger.ledger.status().tight);
    let mut ended = 0;
    for (id, version) in begun.iter().rev().take(30) {
        let record = Envelope { gone: Some(Due::After(Millis(60_000))), ..envelope(vec![2; 100]) };
        assert!(
            matches!(ledger.swap(*id, *version, Some(record)), Ok(Swap::Swapped { .. })),
            "{:?}",
            ledger.ledger.status()
        );
        ended += 1;
    }
    assert_eq!(ended, 30);
    assert_eq!(ledger.ledger.status().poisoned, None);
    drop(ledger);
    // Also over a restart.
    let mut ledger = Stepped::open(options).unwrap();
    ledger.settle();
    for (id, _) in begun.iter().rev().take(30) {
        assert_eq!(ledger.get(*id).unwrap().record.unwrap().payload, vec![2; 100]);
    }
    // What has expired makes room.
    clock.advance(120_000);
    for _ in 0..5 {
        ledger.settle();
    }
    for number in 5_000..5_100 {
        let answer = ledger.swap(id(number), Version::NEVER, Some(live(vec![1; 200])));
        assert!(matches!(answer, Ok(Swap::Swapped { .. })), "{answer:?} {:?}", ledger.ledger.status());
        ledger.settle();
    }
    assert_eq!(ledger.ledger.status().poisoned, None);
}

/// To try whether there is room again means to write until there is none. A full disk has other users.
#[test]
fn a_full_disk_is_tried_again_with_growing_patience_and_at_once_when_a_segment_goes() {
    let (disk, clock) = (FaultyDisk::new(Arc::new(RecordingDisk::default())), ManualClock::new());
    let opts = options(Arc::new(disk.clone()), &clock).removal_memory(Millis(10));
    let mut ledger = Stepped::open(opts).unwrap();
    disk.leave_room(Some(0));
    let record = |life: u64| Envelope { gone: Some(Due::After(Millis(life))), ..envelope(vec![7; 300]) };
    ledger.put(id(1), Some(record(5_000)));
    let calls = disk.calls();
    // Ten minutes of looking ten times a second.
    for _ in 0..6_000 {
        clock.advance(100);
        ledger.stepper.keep();
    }
    let tried = disk.calls() - calls;
    assert!(ledger.ledger.status().tight);
    assert!(tried > 0 && tried < 300, "{tried} calls to a full disk");
    // There is room: noticed after half a minute.
    disk.leave_room(Some(40 * 1024));
    clock.advance(30_000);
    ledger.stepper.keep();
    assert!(!ledger.ledger.status().tight, "{:?}", ledger.ledger.status());
    // Full again; then segments go by themselves, and nobody waits.
    let mut number = 100;
    while !ledger.ledger.status().tight {
        number += 1;
        assert!(number < 10_000, "never full");
        ledger.put(id(number), Some(record(5_000)));
        ledger.stepper.keep();
        ledger.stepper.write();
    }
    for _ in 0..600 {
        clock.advance(100);
        ledger.stepper.keep();
        ledger.stepper.write();
        if ledger.ledger.status().retired > 0 {
            break;
        }
    }
    assert!(ledger.ledger.status().retired > 0, "nothing has expired");
    ledger.settle();
    assert!(!ledger.ledger.status().tight, "{:?}", ledger.ledger.status());
    assert_eq!(ledger.ledger.status().poisoned, None);
}

/// A body does not fit any more, and a segment would. Whoever began now could not record what comes of it, so nobody does;
/// attempts under way may still end, and when there is room again it goes on by itself.
#[test]
fn where_a_body_does_not_fit_nothing_new_is_begun() {
    let (disk, clock) = (FaultyDisk::new(Arc::new(RecordingDisk::default())), ManualClock::new());
    let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
    let begin = |ledger: &mut Stepped, number| ledger.swap(id(number), Version::NEVER, Some(live(vec![1; 100])));
    let Ok(Swap::Swapped { version, .. }) = begin(&mut ledger, 1) else { panic!("it does not begin") };
    ledger.settle();
    disk.leave_room(Some(8 * 1024));
    let put = |ledger: &Stepped, length| now(ledger.ledger.put_body(&id(1), BodyId([7; 32]), vec![7; length].into()));
    assert!(matches!(put(&ledger, 200_000), Err(StoreError::Full { .. })));
    for number in 2..20 {
        let refused = begin(&mut ledger, number);
        assert!(
            matches!(&refused, Err(error @ StoreError::Full { .. }) if error.to_string().contains("HX0026")),
            "{refused:?}"
        );
        clock.advance(3_000);
        ledger.stepper.keep();
    }
    assert!(ledger.ledger.status().tight);
    // A shorter one says nothing about the one that did not fit.
    assert!(put(&ledger, 1_000).is_ok());
    assert!(ledger.ledger.status().tight);
    let ended = ledger.swap(id(1), version, Some(envelope(vec![2; 100])));
    assert!(matches!(ended, Ok(Swap::Swapped { .. })), "{ended:?}");
    // What is over is let go of, or there would never be room again.
    let Ok(Swap::Swapped { version, .. }) = ended else { return };
    let stone = Envelope { counted: Counted::Tombstone, ..envelope(vec![3; 20]) };
    let let_go = ledger.swap(id(1), version, Some(stone));
    assert!(matches!(let_go, Ok(Swap::Swapped { .. })), "{let_go:?}");
    disk.leave_room(None);
    clock.advance(30_000);
    ledger.stepper.keep();
    assert!(!ledger.ledger.status().tight, "{:?}", ledger.ledger.status());
    assert!(matches!(begin(&mut ledger, 30), Ok(Swap::Swapped { .. })));
    assert_eq!(ledger.ledger.status().poisoned, None);
    drop(ledger);
    assert!(!disk.list(&Path::new(DIR).join("bodies")).unwrap().iter().any(|name| name.ends_with(".tmp")));
}

/// One body that is longer than all that is left does not shut out everybody else.
#[test]
fn a_body_that_never_fits_is_no_reason_to_refuse_others() {
    let (disk, clock) = (FaultyDisk::new(Arc::new(RecordingDisk::default())), ManualClock::new());
    let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
    disk.leave_room(Some(8 << 20));
    let put = now(ledger.ledger.put_body(&id(1), BodyId([7; 32]), vec![7; 9 << 20].into()));
    assert!(matches!(put, Err(StoreError::Full { .. })));
    ledger.stepper.keep();
    let begun = ledger.swap(id(1), Version::NEVER, Some(live(vec![1; 100])));
    assert!(matches!(begun, Ok(Swap::Swapped { .. })), "{begun:?}");
}
