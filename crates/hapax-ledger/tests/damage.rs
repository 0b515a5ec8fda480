//! Bytes that are not what they were: found, located, never served, and saved around.

use std::{path::Path, sync::Arc};

use crate::common::*;
use hapax_core::{Millis, Version};
use hapax_ledger::{
    OpenError, Options, check_on,
    disk::{Disk, FaultyDisk, Flip, RecordingDisk},
    repair_on,
};
use hapax_store::{Changes, Cursor, Due, Envelope, Store, StoreError};

const DIR: &str = "/l";

fn options(disk: Arc<dyn Disk>, clock: &Arc<ManualClock>) -> Options {
    small(DIR).disk(disk).clock(clock.clone()).removal_memory(Millis::from_days(1))
}

#[test]
fn a_bit_that_flips_while_the_ledger_runs_is_located_when_it_is_read() {
    let (disk, clock) = (FaultyDisk::new(Arc::new(RecordingDisk::default())), ManualClock::new());
    let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
    ledger.put(id(1), Some(envelope(vec![7; 300])));
    disk.flip(Flip { path: "/l/00000001.seg".into(), offset: 200, mask: 4 });
    let error = ledger.get(id(1)).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { place, .. } if place == "00000001.seg byte 40"), "{error}");
}

/// Where somebody who reads the feed goes on: the place is named, whether it has read from the beginning or goes on by version.
#[test]
fn damage_right_where_a_reader_of_the_feed_goes_on_is_located() {
    for read_on in [false, true] {
        let (disk, clock) = (FaultyDisk::new(Arc::new(RecordingDisk::default())), ManualClock::new());
        let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
        for number in 0..3 {
            ledger.put(id(number), Some(envelope(vec![7; 300])));
        }
        let page = |ledger: &Stepped, cursor: Option<&Cursor>, limit| match now(ledger.ledger.changes(cursor, limit)) {
            Ok(Changes::Page { next, .. }) => next,
            other => panic!("{other:?}"),
        };
        let mut cursor = page(&ledger, None, 1);
        if read_on {
            // Past the beginning, and past what has changed since.
            cursor = page(&ledger, Some(&cursor), 10);
            cursor = page(&ledger, Some(&cursor), 10);
            ledger.put(id(7), Some(envelope(vec![8; 300])));
        }
        let frames: Vec<usize> = {
            let bytes = disk_bytes(&disk);
            (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(b"HXF1")).collect()
        };
        // The frame that it comes to next.
        let damaged = if read_on { frames.len() - 1 } else { 1 };
        let offset = frames[damaged] as u64;
        disk.flip(Flip { path: "/l/00000001.seg".into(), offset: offset + 100, mask: 4 });
        let error = now(ledger.ledger.changes(Some(&cursor), 10)).unwrap_err();
        let place = format!("00000001.seg byte {offset}");
        assert!(matches!(&error, StoreError::Corrupt { place: named, .. } if *named == place), "{read_on}: {error}");
    }
}

fn disk_bytes(disk: &FaultyDisk) -> Vec<u8> {
    let file = disk.open(Path::new("/l/00000001.seg"), hapax_ledger::disk::Mode::Read).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// The first frame of a segment was never finished: that is said, as of any other.
#[test]
fn a_torn_first_frame_of_a_segment_is_reported() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
    ledger.settle();
    let second = Path::new("/l/00000002.seg");
    let has_frames = || disk.image().bytes(second).is_some_and(|bytes| bytes.starts_with(b"HXF1"));
    for number in 0.. {
        assert!(number < 1_000, "no second segment");
        ledger.put(id(number), Some(envelope(vec![7; 600])));
        if has_frames() {
            break;
        }
    }
    let mut image = disk.image();
    image.edit(second, |bytes| bytes[300] ^= 1);
    let torn = RecordingDisk::new(image);
    let report = check_on(&torn, Path::new(DIR)).unwrap();
    let named = report.torn.as_ref().map(|damage| (damage.file.as_str(), damage.offset));
    assert_eq!(named, Some(("00000002.seg", 0)), "{report:?}");
    let again = Stepped::open(options(Arc::new(torn), &clock)).unwrap();
    let named = again.ledger.recovered().torn.as_ref().map(|damage| (damage.file.as_str(), damage.offset));
    assert_eq!(named, Some(("00000002.seg", 0)));
}

/// Damage in the middle of a segment: the start is refused with the place; a check says the same; a repair saves all the
/// rest to a copy, which works, gives no version twice, and leaves the original alone.
#[test]
fn a_damaged_ledger_is_refused_checked_and_repaired_to_a_copy() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let opts = |disk: &RecordingDisk| options(Arc::new(disk.clone()), &clock);
    let mut ledger = Stepped::open(opts(&disk)).unwrap();
    for number in 0..5 {
        ledger.put(id(number), Some(envelope(vec![number as u8; 100])));
    }
    now(ledger.ledger.put_body(&id(1), hapax_store::BodyId([5; 32]), bytes::Bytes::from_static(b"a body"))).unwrap();
    let highest = ledger.get(id(4)).unwrap().version;
    drop(ledger);
    assert!(check_on(&disk, Path::new(DIR)).unwrap().is_whole());
    let mut image = disk.image();
    // Inside the third frame.
    image.edit(Path::new("/l/00000001.seg"), |bytes| bytes[2 * 240 + 100] ^= 1);
    let damaged = RecordingDisk::new(image);
    let error = Stepped::open(opts(&damaged)).err().unwrap();
    let OpenError::Corrupt { damage, .. } = &error else { panic!("{error}") };
    assert_eq!((damage.file.as_str(), damage.offset), ("00000001.seg", 480), "{error}");
    let report = check_on(&damaged, Path::new(DIR)).unwrap();
    assert_eq!(report.damage.len(), 1, "{report:?}");
    assert_eq!((report.damage[0].offset, report.ids), (480, 4));
    let before = damaged.image();
    let target = small("/copy").disk(Arc::new(damaged.clone())).clock(clock.clone());
    damaged.forget_lock();
    let report = repair_on(Arc::new(damaged.clone()), Path::new(DIR), &target);
    // One lock for all of this disk: give it back between the two.
    let report = match report {
        Ok(report) => report,
        Err(OpenError::InUse { .. }) => {
            let separate = RecordingDisk::default();
            let target = small("/copy").disk(Arc::new(separate.clone())).clock(clock.clone());
            let report = repair_on(Arc::new(damaged.clone()), Path::new(DIR), &target).unwrap();
            let mut copy = Stepped::open(target.clone()).unwrap();
            for number in [0, 1, 3, 4] {
                assert_eq!(copy.get(id(number)).unwrap().record.unwrap().payload, vec![number as u8; 100]);
            }
            assert!(copy.get(id(2)).unwrap().record.is_none());
            assert_eq!(now(copy.ledger.get_body(hapax_store::BodyId([5; 32]))).unwrap().unwrap(), "a body");
            assert!(copy.put(id(2), Some(envelope("again"))) > highest);
            drop(copy);
            let again = repair_on(Arc::new(damaged.clone()), Path::new(DIR), &target);
            assert!(matches!(again, Err(OpenError::NotEmpty { .. })));
            report
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(report.ids, 4);
    for name in before.names() {
        assert_eq!(damaged.image().bytes(&name), before.bytes(&name), "{} was changed", name.display());
    }
}

/// A missing segment is not an empty one.
#[test]
fn a_missing_segment_is_named() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
    for number in 0..100 {
        ledger.put(id(number), Some(envelope(vec![1; 500])));
    }
    drop(ledger);
    let is_segment = |name: &std::path::PathBuf| name.extension().is_some_and(|end| end == "seg");
    let names: Vec<_> = disk.image().names().into_iter().filter(is_segment).collect();
    assert!(names.len() >= 3, "{names:?}");
    let without = RecordingDisk::new(disk.image());
    without.remove(&names[1]).unwrap();
    let error = Stepped::open(options(Arc::new(without), &clock)).err().unwrap();
    let OpenError::Corrupt { damage, .. } = &error else { panic!("{error}") };
    assert!(names[1].ends_with(&damage.file), "{error}");
}

/// A bit flips in an old segment while the ledger runs. The cleaning comes by, and once stopped there without a word: the
/// log grew until the disk was full, and nobody knew why.
#[test]
fn damage_that_the_cleaning_finds_is_said_aloud_with_its_place() {
    let (disk, clock) = (FaultyDisk::new(Arc::new(RecordingDisk::default())), ManualClock::new());
    let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock).removal_memory(Millis(10))).unwrap();
    for number in 0..12 {
        ledger.put(id(number), Some(envelope(vec![7; 300])));
    }
    ledger.settle();
    disk.flip(Flip { path: "/l/00000001.seg".into(), offset: 60, mask: 4 });
    let mut said = None;
    for number in 100..400 {
        let record = Envelope { gone: Some(Due::After(Millis(1))), ..envelope(vec![7; 300]) };
        match ledger.swap(id(number), Version::NEVER, Some(record)) {
            Ok(_) => {}
            Err(StoreError::Unavailable { reason, .. }) => {
                said = Some(reason);
                break;
            }
            Err(other) => panic!("{other}"),
        }
        clock.advance(20);
        ledger.stepper.keep();
        ledger.stepper.write();
    }
    let said = said.unwrap_or_else(|| panic!("nobody was told: {:?}", ledger.ledger.status()));
    assert!(said.contains("00000001.seg byte 0") && said.contains("`hapax ledger check /l`"), "{said}");
    assert!(said.ends_with("[HX0024]"), "{said}");
    assert_eq!(ledger.ledger.status().poisoned.as_ref(), Some(&said));
    assert!(ledger.get(id(3)).is_err(), "a damaged ledger answers");
}

/// The same after a restart: a hint hides the damage from the start. The first run that meets it leaves no hint behind, so
/// that the next start refuses with the place instead of stopping again and again in the middle of its work.
#[test]
fn damage_that_the_cleaning_found_is_refused_by_the_next_start() {
    let clock = ManualClock::new();
    let opts = |disk: &RecordingDisk| options(Arc::new(disk.clone()), &clock).removal_memory(Millis(10));
    let disk = RecordingDisk::default();
    let mut ledger = Stepped::open(opts(&disk)).unwrap();
    for number in 0..24 {
        ledger.put(id(number), Some(envelope(vec![7; 300])));
        ledger.settle();
    }
    drop(ledger);
    let mut image = disk.image();
    image.edit(Path::new("/l/00000001.seg"), |bytes| bytes[60] ^= 4);
    let damaged = RecordingDisk::new(image);
    let mut ledger = Stepped::open(opts(&damaged)).unwrap();
    for number in 100..400 {
        let record = Envelope { gone: Some(Due::After(Millis(1))), ..envelope(vec![7; 300]) };
        if ledger.swap(id(number), Version::NEVER, Some(record)).is_err() {
            break;
        }
        clock.advance(20);
        ledger.stepper.keep();
        ledger.stepper.write();
    }
    let why = ledger.ledger.status().poisoned.expect("the cleaning came by");
    assert!(why.contains("00000001.seg byte 0") && why.ends_with("[HX0024]"), "{why}");
    drop(ledger);
    let error = Stepped::open(opts(&damaged)).err().expect("refused");
    let OpenError::Corrupt { damage, .. } = &error else { panic!("{error}") };
    assert_eq!((damage.file.as_str(), damage.offset), ("00000001.seg", 0), "{error}");
    let report = check_on(&damaged, Path::new(DIR)).unwrap();
    assert!(report.damage.iter().any(|found| found.file == damage.file && found.offset == 0), "{report:?}");
}
