//! Disks that fail: the n-th call, a flipped bit, no room, no permission.

#![allow(clippy::disallowed_methods, reason = "real processes and threads take real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::{collections::BTreeMap, io, path::Path, sync::Arc};

use common::*;
use hapax_core::{Id, Millis, Version};
use hapax_ledger::{
    OpenError, Options, check_on,
    disk::{Disk, Fault, FaultyDisk, Flip, Image, Op, RecordingDisk, Survivors},
    repair_on,
};
use hapax_store::{Due, Envelope, Store, StoreError, Swap};

const DIR: &str = "/l";
const IDS: u64 = 12;

fn options(disk: Arc<dyn Disk>, clock: &Arc<ManualClock>) -> Options {
    small(DIR).disk(disk).clock(clock.clone()).removal_memory(Millis::from_days(1))
}

/// What callers know of each id.
#[derive(Clone, Default)]
struct Known {
    /// The newest acknowledged version, and what it holds.
    acknowledged: BTreeMap<Id, (Version, Option<Envelope>)>,
    /// Writes whose fate is not known.
    unknown: BTreeMap<Id, Vec<Option<Envelope>>>,
    highest: u64,
    /// Answers that there was no room.
    full: u64,
}

/// Works until something fails, and then a little longer: nothing may be acknowledged any more. A want of room is no
/// failure: who meets it is told so, and nobody else is concerned.
fn work(ledger: &mut Stepped, clock: &ManualClock, random: &mut Random, known: &mut Known) -> bool {
    let mut poisoned = false;
    for turn in 0..70 {
        clock.advance(5);
        let mut batch = Vec::new();
        for _ in 0..=random.below(3) {
            let id = id(random.below(IDS));
            let expected = known.acknowledged.get(&id).map_or(Version::NEVER, |known| known.0);
            let payload = vec![random.next() as u8; random.below(600) as usize];
            let body = random_body(random);
            let record = match random.below(8) {
                0 | 1 => None,
                2 | 3 => Some(live(payload)),
                4 => match now(ledger.ledger.put_body(&id, body, body_bytes(body))) {
                    Ok(()) => Some(envelope(naming(body))),
                    Err(StoreError::Full { .. }) => {
                        known.full += 1;
                        continue;
                    }
                    Err(StoreError::Unavailable { .. }) => continue,
                    Err(other) => panic!("{other}"),
                },
                _ => Some(envelope(payload)),
            };
            batch.push((id, expected, record));
        }
        let answers = ledger.swap_all(batch.clone());
        for ((id, _, next), answer) in batch.into_iter().zip(answers) {
            match answer {
                Ok(Swap::Swapped { version, .. }) => {
                    assert!(!poisoned, "acknowledged after an error on the write path");
                    assert!(version.0 > known.highest);
                    known.highest = version.0;
                    known.acknowledged.insert(id, (version, next));
                }
                Ok(Swap::Conflict(_)) => assert!(!poisoned, "answered after an error on the write path"),
                Err(StoreError::Unknown { .. }) => {
                    poisoned = true;
                    known.unknown.entry(id).or_default().push(next);
                }
                Err(StoreError::Unavailable { .. }) => {}
                Err(StoreError::Full { .. }) => {
                    assert!(!poisoned, "answered after an error on the write path");
                    known.full += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        poisoned |= ledger.ledger.status().poisoned.is_some();
        if poisoned {
            assert!(ledger.get(id(1)).is_err(), "a poisoned ledger answers");
            if turn % 7 == 6 {
                return true;
            }
        }
        match random.below(4) {
            0 => {
                ledger.stepper.keep();
            }
            1 => ledger.stepper.mark(),
            _ => {}
        }
    }
    poisoned
}

fn verify(disk: RecordingDisk, clock: &Arc<ManualClock>, known: &Known, what: &str) {
    let mut ledger = Stepped::open(options(Arc::new(disk), clock)).unwrap_or_else(|error| panic!("{what}: {error}"));
    for number in 0..IDS {
        let id = id(number);
        let snapshot = ledger.get(id).unwrap();
        let nothing = (Version::NEVER, None);
        let (version, record) = known.acknowledged.get(&id).unwrap_or(&nothing);
        has_its_body(&ledger.ledger, snapshot.record.as_ref(), &format!("{what}: id {number}"));
        if snapshot.version == *version {
            assert_eq!(snapshot.record, *record, "{what}: id {number}");
        } else {
            assert!(snapshot.version > *version, "{what}: id {number} has lost {version}");
            let maybe = known.unknown.get(&id);
            assert!(
                maybe.is_some_and(|maybe| maybe.contains(&snapshot.record)),
                "{what}: id {number} shows {snapshot:?}"
            );
        }
    }
    assert!(ledger.put(id(9_999), Some(envelope("after"))).0 > known.highest, "{what}: a version came twice");
}

#[test]
fn whichever_call_to_the_disk_fails_nothing_acknowledged_is_lost() {
    let mut random = Random::from_env("nth call");
    let seed = random.next();
    let total = {
        let (disk, clock) = (FaultyDisk::new(Arc::new(RecordingDisk::default())), ManualClock::new());
        let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
        assert!(!work(&mut ledger, &clock, &mut Random::new(seed), &mut Known::default()));
        assert!(ledger.ledger.status().retired > 0 || !Random::is_fixed(), "a history without cleaning");
        disk.calls()
    };
    let (mut poisoned, mut full) = (0, 0);
    for nth in 1..=total {
        for fault in [
            Fault::Before(io::ErrorKind::Other),
            Fault::After(io::ErrorKind::Other),
            Fault::Torn(io::ErrorKind::Other),
            Fault::Before(io::ErrorKind::StorageFull),
            Fault::Torn(io::ErrorKind::StorageFull),
        ] {
            let what = format!("call {nth} of {total}, {fault:?}");
            let (recording, clock) = (RecordingDisk::default(), ManualClock::new());
            let disk = FaultyDisk::new(Arc::new(recording.clone()));
            disk.fail(nth, fault);
            let mut known = Known::default();
            if let Ok(mut ledger) = Stepped::open(options(Arc::new(disk.clone()), &clock)) {
                poisoned += u64::from(work(&mut ledger, &clock, &mut Random::new(seed), &mut known));
            }
            full += u64::from(known.full > 0);
            // The process is restarted; or the power fails as well, and all that was not synced is gone.
            verify(recording.clone(), &clock, &known, &what);
            let trace = recording.trace();
            let mut survivors = Survivors::new(Image::default());
            trace.iter().take_while(|op| !matches!(op, Op::Note(_))).for_each(|op| survivors.advance(op));
            let image = survivors.image(&mut |end| random.below(end));
            verify(RecordingDisk::new(image), &clock, &known, &what);
        }
    }
    println!("{total} calls, {poisoned} poisoned, {full} times no room");
    let usual = poisoned > total / 2 && full > total / 10;
    assert!(usual || !Random::is_fixed(), "most calls are on the write path");
}

/// A closed ledger with some history, and what it holds.
fn closed_ledger(seed: u64) -> (RecordingDisk, Arc<ManualClock>, Known) {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut known = Known::default();
    let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
    assert!(!work(&mut ledger, &clock, &mut Random::new(seed), &mut known));
    ledger.settle();
    now(ledger.ledger.put_body(&id(1), hapax_store::BodyId([5; 32]), bytes::Bytes::from_static(b"a body"))).unwrap();
    ledger.stepper.mark();
    drop(ledger);
    (disk, clock, known)
}

#[test]
fn a_flipped_bit_is_refused_and_located_or_harmless_but_never_served() {
    let mut random = Random::from_env("bit flips");
    let (mut refused, mut located, mut harmless) = (0, 0, 0);
    for _ in 0..4 {
        let (disk, clock, known) = closed_ledger(random.next());
        let image = disk.image();
        let names: Vec<_> = image.names().into_iter().filter(|name| !name.ends_with("lock")).collect();
        let used = |name: &Path| {
            let last = image.bytes(name).unwrap().iter().rposition(|byte| *byte != 0);
            last.map_or(0, |last| last as u64 + 1)
        };
        for _ in 0..1_500 {
            let name = &names[random.below(names.len() as u64) as usize];
            let offset = random.below(used(name).max(1));
            let mask = 1 << random.below(8);
            let mut flipped = image.clone();
            flipped.edit(name, |bytes| {
                if let Some(byte) = bytes.get_mut(offset as usize) {
                    *byte ^= mask;
                }
            });
            let what = format!("{} byte {offset}", name.display());
            let reopened = Stepped::open(options(Arc::new(RecordingDisk::new(flipped.clone())), &clock));
            let ledger = match reopened {
                Err(error) => {
                    let text = error.to_string();
                    let expected = matches!(
                        error,
                        OpenError::Corrupt { .. } | OpenError::NotALedger { .. } | OpenError::Newer { .. }
                    );
                    assert!(expected, "{what}: {text}");
                    if let OpenError::Corrupt { damage, .. } = &error {
                        assert!(
                            text.contains("`hapax ledger check /l`")
                                && text.contains("`hapax ledger repair /l --to COPY`"),
                            "{text}"
                        );
                        assert!(damage.file.ends_with(".seg"), "{text}");
                    }
                    refused += 1;
                    continue;
                }
                Ok(ledger) => ledger,
            };
            let mut lost = false;
            for number in 0..IDS {
                let nothing = (Version::NEVER, None);
                let (version, record) = known.acknowledged.get(&id(number)).unwrap_or(&nothing);
                match ledger.get(id(number)) {
                    Ok(snapshot) => {
                        assert_eq!((snapshot.version, &snapshot.record), (*version, record), "{what}: id {number}");
                    }
                    Err(StoreError::Corrupt { place, .. }) => {
                        assert!(place.contains(".seg byte"), "{place}");
                        lost = true;
                    }
                    Err(other) => panic!("{what}: {other}"),
                }
            }
            match now(ledger.ledger.get_body(hapax_store::BodyId([5; 32]))) {
                Ok(Some(body)) => assert_eq!(body, "a body", "{what}"),
                Err(StoreError::Corrupt { .. }) => lost = true,
                // The name itself cannot be flipped here.
                other => panic!("{what}: {other:?}"),
            }
            drop(ledger);
            if lost {
                let report = check_on(&RecordingDisk::new(flipped), Path::new(DIR)).unwrap();
                assert!(!report.is_whole(), "{what}: check finds nothing");
                located += 1;
            } else {
                harmless += 1;
            }
        }
    }
    println!("{refused} refused, {located} located when read, {harmless} without effect");
    assert!(refused > 0 && located > 0);
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

#[test]
fn a_directory_that_cannot_be_written_to_is_said_to_be() {
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied] {
        let (recording, clock) = (RecordingDisk::default(), ManualClock::new());
        let disk = FaultyDisk::new(Arc::new(recording.clone()));
        disk.read_only(Some(kind));
        let fresh = Stepped::open(options(Arc::new(disk.clone()), &clock)).err().unwrap();
        assert!(matches!(fresh, OpenError::ReadOnly { .. }), "{fresh}");
        assert!(fresh.to_string().contains("cannot be written to"), "{fresh}");
        disk.read_only(None);
        let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
        ledger.put(id(1), Some(envelope("x")));
        drop(ledger);
        disk.read_only(Some(kind));
        let old = Stepped::open(options(Arc::new(disk.clone()), &clock)).err().unwrap();
        assert!(matches!(old, OpenError::ReadOnly { .. }), "{old}");
        disk.read_only(None);
        let ledger = Stepped::open(options(Arc::new(disk), &clock)).unwrap();
        assert!(ledger.get(id(1)).unwrap().record.is_some());
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

/// A body whose sync fails: the record that would name it must not come to be, and nobody may believe the next sync.
#[test]
fn a_body_that_cannot_be_synced_poisons_the_ledger() {
    let (disk, clock) = (FaultyDisk::new(Arc::new(RecordingDisk::default())), ManualClock::new());
    let ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
    let put = |fill: u8| now(ledger.ledger.put_body(&id(1), hapax_store::BodyId([fill; 32]), vec![fill; 50].into()));
    put(1).unwrap();
    // Create, write, sync.
    disk.fail(4, Fault::Before(io::ErrorKind::Other));
    let failed = put(2);
    assert!(matches!(failed, Err(StoreError::Unavailable { .. })), "{failed:?}");
    assert!(ledger.ledger.status().poisoned.is_some_and(|why| why.ends_with("[HX0027]")));
    assert!(put(3).is_err());
}
