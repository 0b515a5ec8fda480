//! A ledger outlives the program that wrote it. These directories were written by the first program that had the format;
//! as long as one such may lie on somebody's disk, every later program has to open it and find what was put there.
//!
//! `HAPAX_WRITE_GOLDEN=1` writes the directories that are missing; one that exists is never touched.

#![allow(clippy::disallowed_methods, reason = "files of the test's own")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::common::*;
use bytes::Bytes;
use hapax_core::{Millis, Stamp, Version};
use hapax_ledger::{OpenError, Options, check, disk::RealDisk};
use hapax_store::{BodyId, Counted, Due, Entry, Envelope, Index, List, Store};

const BODY: BodyId = BodyId([5; 32]);

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn options(path: &Path, clock: &Arc<ManualClock>) -> Options {
    Options::new(path)
        .segment_bytes(4096, 4096)
        .removal_memory(Millis::from_days(1))
        .clock(clock.clone())
        .disk(Arc::new(RealDisk))
}

/// What every directory holds, whatever it went through. The text says what each is there for.
fn samples() -> Vec<(u64, &'static str, Option<Envelope>)> {
    let listed = |list, order| Entry { list, tag: tag(9), order };
    vec![
        (1, "as plain as can be", Some(envelope("plain"))),
        (2, "no payload", Some(envelope(""))),
        (3, "a payload that needs padding", Some(envelope(vec![3; 1_001]))),
        (4, "live", Some(live("at work"))),
        (5, "in doubt", Some(Envelope { in_doubt: true, ..envelope("who knows") })),
        (6, "a tombstone", Some(Envelope { counted: Counted::Tombstone, ..envelope("was here") })),
        (
            7,
            "every sort of moment",
            Some(Envelope {
                lease_end: Some(Due::At(Stamp(START_MS + 9_000))),
                expiry: Some(Due::After(Millis::from_days(30))),
                gone: Some(Due::At(Stamp(START_MS + 40 * 24 * 3_600_000))),
                ..envelope("windows")
            }),
        ),
        (
            8,
            "in two lists",
            Some(Envelope {
                entries: vec![listed(List::Group, 7), listed(List::Queue, u64::MAX)],
                ..envelope("listed")
            }),
        ),
        (9, "removed", None),
        (10, "another tenant's", Some(Envelope { surface: tag(3), tenant: tag(4), ..envelope("theirs") })),
    ]
}

/// Written once, overwritten, expired, cleaned: the samples end up in several segments, some of them carried over.
fn write(path: &Path, killed: bool) {
    let clock = ManualClock::new();
    let mut ledger = Stepped::open(options(path, &clock)).unwrap();
    for (number, ..) in samples() {
        ledger.put(id(number), Some(envelope(vec![0; 50])));
    }
    for (number, _, record) in samples() {
        clock.advance(1);
        ledger.put(id(number), record);
    }
    let short = |number| Envelope { gone: Some(Due::After(Millis(1))), ..envelope(vec![number as u8; 700]) };
    for number in 100..if killed { 117 } else { 118 } {
        ledger.put(id(number), Some(short(number)));
        clock.advance(10);
        ledger.settle();
    }
    now(ledger.ledger.put_body(&id(1), BODY, Bytes::from_static(b"a body"))).unwrap();
    let status = ledger.ledger.status();
    assert!(status.carried > 0, "nothing was carried over: {status:?}");
    if !killed {
        ledger.stepper.mark();
    }
    let versions: Vec<String> = samples()
        .iter()
        .map(|(number, ..)| {
            let snapshot = ledger.get(id(*number)).unwrap();
            format!("{number} {} {}\n", snapshot.version, snapshot.stamp.0)
        })
        .collect();
    drop(ledger);
    if killed {
        // The next frame was half written when the process went.
        let before: Vec<_> = segments(path).into_iter().map(|name| (fs::read(&name).unwrap(), name)).collect();
        let mut ledger = Stepped::open(options(path, &clock)).unwrap();
        ledger.put(id(200), Some(envelope(vec![7; 100])));
        drop(ledger);
        let changed = |(bytes, name): &(Vec<u8>, PathBuf)| {
            let after = fs::read(name).unwrap();
            let first = bytes.iter().zip(&after).position(|(before, after)| before != after)?;
            Some((name.clone(), [&bytes[..first], &after[first..first + 150], &bytes[first + 150..]].concat()))
        };
        let (name, torn) = before.iter().find_map(changed).unwrap();
        fs::write(name, torn).unwrap();
    }
    fs::remove_file(path.join("lock")).unwrap();
    fs::write(path.join("versions.txt"), versions.concat()).unwrap();
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|name| name.extension().is_some_and(|end| end == "seg"));
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_directory_of_format_1_is_opened_as_it_was_meant() {
    for (name, killed) in [("v1-closed", false), ("v1-killed", true)] {
        let kept = golden().join(name);
        if std::env::var_os("HAPAX_WRITE_GOLDEN").is_some() && !kept.exists() {
            write(&kept, killed);
        }
        let dir = TempDir::new("golden");
        copy(&kept, &dir.0);
        let report = check(&dir.0).unwrap();
        assert!(report.is_whole() && report.torn.is_some() == killed && report.bodies == 1, "{name}: {report:?}");
        let clock = ManualClock::at(START_MS + 60_000);
        let mut ledger = Stepped::open(options(&dir.0, &clock)).unwrap();
        assert_eq!(ledger.ledger.recovered().torn.is_some(), killed, "{name}");
        let versions = fs::read_to_string(kept.join("versions.txt")).unwrap();
        let mut highest = Version::NEVER;
        for ((number, what, record), line) in samples().into_iter().zip(versions.lines()) {
            let snapshot = ledger.get(id(number)).unwrap();
            assert_eq!(format!("{number} {} {}", snapshot.version, snapshot.stamp.0), line, "{name}: {what}");
            assert_eq!(snapshot.record, record, "{name}: {what}");
            highest = highest.max(snapshot.version);
        }
        let found = |index| now(ledger.ledger.scan(index, None, 100)).unwrap().items;
        assert_eq!(found(Index::InDoubt), [id(5)], "{name}");
        assert_eq!(found(Index::Queue(tag(9))), [id(8)], "{name}");
        assert_eq!(found(Index::LeaseEnd { until: Stamp(START_MS + 9_000) }), [id(7)], "{name}");
        assert_eq!(now(ledger.ledger.get_body(BODY)).unwrap().unwrap(), "a body", "{name}");
        assert!(ledger.get(id(200)).unwrap().record.is_none(), "{name}: half a frame is data");
        // And it goes on from there.
        assert!(ledger.put(id(300), Some(envelope("later"))) > highest, "{name}");
    }
}

/// The same directory, but from the future.
#[test]
fn a_directory_of_a_later_format_is_refused_and_left_as_it_is() {
    let dir = TempDir::new("later");
    copy(&golden().join("v1-closed"), &dir.0);
    let meta = dir.0.join("ledger");
    let mut bytes = fs::read(&meta).unwrap();
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..28]);
    bytes[28..].copy_from_slice(&sum.to_le_bytes());
    fs::write(&meta, bytes).unwrap();
    let files = || {
        let mut all: Vec<_> = fs::read_dir(&dir.0).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.retain(|path| path.is_file() && !path.ends_with("lock"));
        all.sort();
        all.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let before = files();
    let error = Stepped::open(options(&dir.0, &ManualClock::new())).err().unwrap();
    assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
    assert!(error.to_string().contains("use that version") && error.to_string().ends_with("[HX0022]"), "{error}");
    assert!(matches!(check(&dir.0), Err(OpenError::Newer { .. })), "a check guesses");
    assert_eq!(files(), before);
}
