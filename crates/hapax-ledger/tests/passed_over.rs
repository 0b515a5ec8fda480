//! A segment that holds nothing although later ones do: how it once came to be, why it no longer does, and what a start, a
//! check and a repair make of one.

use std::{path::Path, sync::Arc};

use crate::common::*;
use hapax_core::{Millis, Version};
use hapax_ledger::{OpenError, Options, check_on, disk::RecordingDisk, repair_on, testing};
use hapax_store::{Due, Envelope};

const DIR: &str = "/l";

fn on(disk: &RecordingDisk, clock: &Arc<ManualClock>) -> Options {
    small(DIR).disk(Arc::new(disk.clone())).clock(clock.clone())
}

/// Found under disk load, once in thousands of kills: a start was refused because "the segment holds no whole frame, and
/// later ones do". The keeper was late, so the writer went on in a file that grew as it was written; the process was
/// killed when that held a few hundred bytes; the next process took twice that for the size of the segment to make
/// ready; and the first thing that did not fit in there went to the segment after it.
#[test]
fn a_segment_that_was_cut_short_by_a_kill_makes_the_next_one_no_smaller() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
    // No keeper comes by: the writer makes the second segment itself, and a kill leaves it short.
    let mut number = 0;
    while disk.image().bytes(Path::new("/l/00000002.seg")).is_none() {
        number += 1;
        ledger.put(id(number), Some(envelope(vec![1; 300])));
    }
    let cut_short = disk.image().bytes(Path::new("/l/00000002.seg")).unwrap().len();
    assert!(cut_short < 1_000, "{cut_short}");
    let killed = RecordingDisk::new(disk.image());
    let mut ledger = Stepped::open(on(&killed, &clock)).unwrap();
    ledger.settle();
    let ready = killed.image().bytes(Path::new("/l/00000003.seg")).unwrap().len();
    assert!(ready >= 4096, "a segment of {ready} bytes was made ready");
    let large = ledger.put(id(9_000), Some(envelope(vec![2; 3_500])));
    let killed_again = RecordingDisk::new(killed.image());
    let report = check_on(&killed_again, Path::new(DIR)).unwrap();
    assert!(report.is_whole() && report.passed_over == 0, "{report:?}");
    let again = Stepped::open(on(&killed_again, &clock)).unwrap();
    assert_eq!(again.get(id(9_000)).unwrap().version, large);
    drop(ledger);
}

/// The other half of the same accident: whatever does not fit into an empty segment makes that one grow.
#[test]
fn what_is_too_large_for_an_empty_segment_makes_it_grow_and_passes_over_nothing() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(on(&disk, &clock).segment_bytes(16 * 1024, 16 * 1024)).unwrap();
    ledger.put(id(1), Some(envelope(vec![1; 15_000])));
    ledger.put(id(2), Some(Envelope { gone: Some(Due::After(Millis(10))), ..envelope(vec![1; 15_000]) }));
    drop(ledger);
    // From now on segments are small; what was carried over from the large ones does not fit into one.
    let options = on(&disk, &clock).segment_bytes(4096, 4096).removal_memory(Millis(10));
    let mut ledger = Stepped::open(options.clone()).unwrap();
    for number in 10..60 {
        clock.advance(20);
        ledger.put(id(number), Some(Envelope { gone: Some(Due::After(Millis(10))), ..envelope(vec![3; 900]) }));
        ledger.settle();
    }
    let status = ledger.ledger.status();
    assert!(status.carried > 0 && status.poisoned.is_none(), "{status:?}");
    drop(ledger);
    let report = check_on(&disk, Path::new(DIR)).unwrap();
    assert!(report.is_whole() && report.passed_over == 0, "{report:?}");
    let again = Stepped::open(options).unwrap();
    assert_eq!(again.get(id(1)).unwrap().record.unwrap().payload, vec![1; 15_000]);
}

/// Directories of earlier builds may hold a segment that was passed over. A start, a check and a repair agree about it:
/// it is no damage where the frame behind it names the one before it, and it is damage where frames are missing.
#[test]
fn an_empty_segment_in_the_middle_is_no_damage_where_the_chain_goes_on_over_it() {
    let clock = ManualClock::new();
    let (disk, store) = testing::passed_over();
    let open = |disk: &RecordingDisk| Stepped::open(on(disk, &clock));
    let report = check_on(&disk, Path::new(DIR)).unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!((report.passed_over, report.ids), (1, 2));
    let ledger = open(&disk).unwrap();
    assert!(store.iter().all(|id| ledger.get(*id).unwrap().version > Version::NEVER), "both writes are there");
    drop(ledger);
    let target = small("/copy").disk(Arc::new(RecordingDisk::default())).clock(clock.clone());
    assert!(repair_on(Arc::new(disk.clone()), Path::new(DIR), &target).unwrap().is_whole());
    // With the frame before it damaged the chain is broken, and all of them say so.
    let (disk, _) = testing::passed_over();
    let mut image = disk.image();
    image.edit(Path::new("/l/00000001.seg"), |bytes| bytes[50] ^= 1);
    let disk = RecordingDisk::new(image);
    assert!(matches!(open(&disk), Err(OpenError::Corrupt { .. })));
    assert!(!check_on(&disk, Path::new(DIR)).unwrap().is_whole());
}
