//! Disks that fail: the n-th call, a flipped bit, no permission.

#![allow(clippy::disallowed_methods, reason = "real processes and threads take real time")]

use std::{collections::BTreeMap, io, path::Path, sync::Arc};

use crate::common::*;
use hapax_core::{Id, Millis, Version};
use hapax_ledger::{
    OpenError, Options, check_on,
    disk::{Disk, Fault, FaultyDisk, Image, Op, RecordingDisk, Survivors},
};
use hapax_store::{BodyId, Envelope, Store, StoreError, Swap};

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
    /// The process is killed as soon as it has said so.
    ends_when_full: bool,
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
        if known.ends_when_full && known.full > 0 {
            return false;
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
        for (fault, ends_when_full) in [
            (Fault::Before(io::ErrorKind::Other), false),
            (Fault::After(io::ErrorKind::Other), false),
            (Fault::Torn(io::ErrorKind::Other), false),
            (Fault::Before(io::ErrorKind::StorageFull), false),
            (Fault::Torn(io::ErrorKind::StorageFull), false),
            (Fault::Before(io::ErrorKind::StorageFull), true),
            (Fault::Torn(io::ErrorKind::StorageFull), true),
            (Fault::After(io::ErrorKind::StorageFull), false),
            (Fault::After(io::ErrorKind::StorageFull), true),
        ] {
            let what = format!("call {nth} of {total}, {fault:?}, ends then: {ends_when_full}");
            let (recording, clock) = (RecordingDisk::default(), ManualClock::new());
            let disk = FaultyDisk::new(Arc::new(recording.clone()));
            disk.fail(nth, fault);
            let mut known = Known { ends_when_full, ..Known::default() };
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

/// What a write for which the room was missing has not written is zeros, and so is what stood there before.
#[test]
fn who_is_told_that_there_is_no_room_finds_nothing_afterwards() {
    for fault in [Fault::Torn(io::ErrorKind::StorageFull), Fault::After(io::ErrorKind::StorageFull)] {
        let zeros = Some(envelope(vec![0; 3_000]));
        // Until the write is the one that fails: which call that is, is the ledger's own business.
        let (mut shown, mut refused) = (0, 0);
        for nth in 1..200 {
            let (recording, clock) = (RecordingDisk::default(), ManualClock::new());
            let disk = FaultyDisk::new(Arc::new(recording.clone()));
            disk.fail(nth, fault);
            let Ok(mut ledger) = Stepped::open(options(Arc::new(disk.clone()), &clock)) else { continue };
            let answer = ledger.swap(id(1), Version::NEVER, zeros.clone());
            if disk.calls() < nth {
                break;
            }
            // As the process leaves it, and as the disk has it after a power cut.
            let trace = recording.trace();
            let mut survivors = Survivors::new(Image::default());
            trace.iter().for_each(|op| survivors.advance(op));
            let images = [recording.image(), survivors.image(&mut |_| 0)];
            for (at, image) in images.into_iter().enumerate() {
                let after = Stepped::open(options(Arc::new(RecordingDisk::new(image)), &clock)).unwrap();
                let record = after.get(id(1)).unwrap().record;
                match &answer {
                    Ok(_) => assert_eq!(record, zeros, "call {nth}, {fault:?}, image {at}: it was acknowledged"),
                    Err(StoreError::Full { .. }) => {
                        assert_eq!(record, None, "call {nth}, {fault:?}, image {at}: there was no room");
                    }
                    Err(_) => {}
                }
            }
            shown += u64::from(answer.is_ok());
            refused += u64::from(matches!(answer, Err(StoreError::Full { .. })));
        }
        assert!(shown > 0 && refused + shown > 1, "{fault:?}: {shown} acknowledged, {refused} refused");
    }
}

/// A closed ledger with some history, and what it holds.
fn closed_ledger(seed: u64) -> (RecordingDisk, Arc<ManualClock>, Known) {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut known = Known::default();
    let mut ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
    assert!(!work(&mut ledger, &clock, &mut Random::new(seed), &mut known));
    ledger.settle();
    now(ledger.ledger.put_body(&id(1), BodyId([5; 32]), bytes::Bytes::from_static(b"a body"))).unwrap();
    ledger.stepper.mark();
    drop(ledger);
    (disk, clock, known)
}

/// A start of a ledger with some history: it works with all that was acknowledged, or it refuses, and the next one works.
#[test]
fn whichever_call_of_a_start_fails_the_next_start_has_everything() {
    let mut random = Random::from_env("nth call of a start");
    for _ in 0..3 {
        let (closed, clock, known) = closed_ledger(random.next());
        let mut refused = 0;
        for nth in 1.. {
            let mut came_so_far = false;
            for fault in [
                Fault::Before(io::ErrorKind::Other),
                Fault::After(io::ErrorKind::Other),
                Fault::Torn(io::ErrorKind::Other),
                Fault::Before(io::ErrorKind::StorageFull),
                Fault::Torn(io::ErrorKind::StorageFull),
            ] {
                let recording = RecordingDisk::new(closed.image());
                let disk = FaultyDisk::new(Arc::new(recording.clone()));
                disk.fail(nth, fault);
                let opened = Stepped::open(options(Arc::new(disk.clone()), &clock));
                came_so_far |= disk.calls() >= nth;
                refused += u64::from(opened.is_err());
                drop(opened);
                verify(recording, &clock, &known, &format!("call {nth} of a start, {fault:?}"));
            }
            if !came_so_far {
                break;
            }
        }
        assert!(refused > 20, "only {refused} starts have met a failure");
    }
}

/// Whether this place says where the flipped bit is: in its own segment not behind it, or at the end of the one before, with
/// which the chain breaks.
fn is_about(file: &str, at: u64, flipped: &Path, offset: u64) -> bool {
    let number = |name: &str| u32::from_str_radix(name.get(..8)?, 16).ok();
    let flipped = flipped.file_name().unwrap().to_str().unwrap();
    let (Some(told), Some(true_one)) = (number(file), number(flipped)) else { return false };
    (told == true_one && (at <= offset || flipped.ends_with(".hint"))) || told + 1 == true_one
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
                            text.contains("`hapax ledger check /l`") && text.contains("`hapax ledger repair /l COPY`"),
                            "{text}"
                        );
                        assert!(damage.file.ends_with(".seg"), "{text}");
                        assert!(is_about(&damage.file, damage.offset, name, offset), "{what}: {text}");
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
                        let (file, at) = place.split_once(" byte ").unwrap();
                        assert!(is_about(file, at.parse().unwrap(), name, offset), "{what}: {place}");
                        lost = true;
                    }
                    Err(other) => panic!("{what}: {other}"),
                }
            }
            match now(ledger.ledger.get_body(BodyId([5; 32]))) {
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

/// A body whose way to the disk fails: the record that would name it must not come to be, and nobody may believe the next
/// sync. Only a want of room concerns nobody else, as long as nothing has its name yet.
#[test]
fn a_body_that_cannot_be_made_durable_poisons_the_ledger() {
    // The calls of a put: create, write, sync, rename, sync of the directory.
    for call in 1..=5 {
        for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
            let (disk, clock) = (FaultyDisk::new(Arc::new(RecordingDisk::default())), ManualClock::new());
            let ledger = Stepped::open(options(Arc::new(disk.clone()), &clock)).unwrap();
            let body = |fill: u8| BodyId([fill; 32]);
            let put = |fill: u8| now(ledger.ledger.put_body(&id(1), body(fill), vec![fill; 50].into()));
            put(1).unwrap();
            disk.fail(call, Fault::Before(kind));
            let failed = put(2);
            let what = format!("call {call}, {kind:?}: {failed:?}");
            if kind == io::ErrorKind::StorageFull && call < 5 {
                assert!(matches!(failed, Err(StoreError::Full { .. })), "{what}");
                assert_eq!(ledger.ledger.status().poisoned, None, "{what}");
                assert_eq!(now(ledger.ledger.get_body(body(2))).unwrap(), None, "{what}");
                put(2).unwrap();
            } else {
                assert!(matches!(failed, Err(StoreError::Unavailable { .. })), "{what}");
                assert!(ledger.ledger.status().poisoned.is_some_and(|why| why.ends_with("[HX0027]")), "{what}");
                assert!(put(3).is_err(), "{what}");
            }
        }
    }
}
