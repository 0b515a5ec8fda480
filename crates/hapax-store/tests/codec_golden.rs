//! A ledger outlives the program that wrote it. These files were written by the program that first had the format; as
//! long as one such record may lie on somebody's disk, every later program has to read it as it was meant.
//!
//! `HAPAX_WRITE_GOLDEN=1` writes the files that are missing and the texts anew; a `.bin` that exists is never touched.

use std::collections::BTreeSet;

use crate::codec_support::{decode, golden_dir, samples};
use hapax_core::{
    Anchor, Body, Effect, Fence, Outcome, OutcomeClass, Record, Span, State,
    policy::{AfterWindow, OnLapse},
    record::End,
};
use hapax_store::codec::{self, CodecError};

fn shown(record: &Record) -> String {
    format!("{record:#?}\n")
}

/// Name, bytes, text.
fn goldens() -> Vec<(String, Vec<u8>, String)> {
    let mut names: Vec<_> = std::fs::read_dir(golden_dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "bin"));
    names.sort();
    names
        .into_iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(path.with_extension("txt")).unwrap();
            (name, std::fs::read(path).unwrap(), text)
        })
        .collect()
}

#[test]
fn old_records_are_read_as_they_were_meant_and_written_as_they_were() {
    if std::env::var_os("HAPAX_WRITE_GOLDEN").is_some() {
        for (name, record) in samples() {
            let path = golden_dir().join(&name).with_extension("bin");
            if !path.exists() {
                std::fs::write(&path, codec::seal(&record).payload).unwrap();
            }
            let kept = decode(std::fs::read(&path).unwrap()).unwrap();
            std::fs::write(path.with_extension("txt"), shown(&kept)).unwrap();
        }
    }
    for (name, bytes, text) in goldens() {
        let record = decode(bytes.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(shown(&record), text, "{name}");
        assert_eq!(codec::seal(&record).payload, bytes, "{name}");
    }
}

/// The text leaves out digests and most of a nonce; the values themselves are compared here.
#[test]
fn every_sample_has_a_golden_file_and_still_has_its_bytes() {
    let goldens = goldens();
    for (name, record) in samples() {
        let golden = goldens.iter().find(|(known, _, _)| *known == name);
        let (_, bytes, _) = golden.unwrap_or_else(|| panic!("no golden file for {name}; see the top of this file"));
        assert_eq!(decode(bytes.clone()).as_ref(), Ok(&record), "{name}");
        assert_eq!(codec::seal(&record).payload, bytes, "{name}");
    }
}

#[test]
fn every_variant_has_a_golden_file() {
    let mut seen = BTreeSet::new();
    for (_, bytes, _) in goldens() {
        mark(&mut seen, &decode(bytes).unwrap());
    }
    let missing: Vec<&str> = ALL.iter().filter(|variant| !seen.contains(*variant)).copied().collect();
    assert!(missing.is_empty(), "no golden file holds {missing:?}; add a sample");
    let unlisted: Vec<_> = seen.iter().filter(|variant| !ALL.contains(variant)).collect();
    assert!(unlisted.is_empty(), "add {unlisted:?} to the list");
}

const ALL: [&str; 54] = [
    "state Pending",
    "state Pending, not started",
    "state Open",
    "state Open with failure",
    "state InDoubt",
    "state InDoubt with probe",
    "state Committed",
    "state Rejected",
    "state Tombstone",
    "state Tombstone, rejected",
    "body Empty",
    "body Inline",
    "body Stored",
    "body Uncaptured",
    "body Handle",
    "class 1",
    "class 2",
    "class 3",
    "class 4",
    "class 5",
    "class 6",
    "class 7",
    "end Running",
    "end Completed",
    "end Rejected",
    "end Failed",
    "end FailedUnknown",
    "end Released",
    "end Lapsed",
    "end Lapsed, started",
    "end Resolved",
    "end TakenOver",
    "effect Pure",
    "effect Idempotent",
    "effect Compensatable",
    "effect Irreversible",
    "effect Unsafe",
    "lapse Open",
    "lapse InDoubt",
    "lapse Stale",
    "window New",
    "window Refuse",
    "span For",
    "span Forever",
    "anchor Write",
    "anchor At",
    "fence Write",
    "fence At",
    "past",
    "lease",
    "past lease",
    "evidence",
    "resolved",
    "prints",
];

/// No wildcard anywhere: a new variant does not compile until it is named here, and then has to have its file.
fn mark(seen: &mut BTreeSet<&'static str>, record: &Record) {
    seen.insert(match record.effect {
        Effect::Pure => "effect Pure",
        Effect::Idempotent => "effect Idempotent",
        Effect::Compensatable => "effect Compensatable",
        Effect::Irreversible => "effect Irreversible",
        Effect::Unsafe => "effect Unsafe",
    });
    seen.insert(match record.rules.on_lapse {
        OnLapse::Open => "lapse Open",
        OnLapse::InDoubt => "lapse InDoubt",
        OnLapse::Stale => "lapse Stale",
    });
    seen.insert(match record.rules.after_window {
        AfterWindow::New => "window New",
        AfterWindow::Refuse => "window Refuse",
    });
    seen.insert(match record.attempt.begun {
        Anchor::Write => "anchor Write",
        Anchor::At(_) => "anchor At",
    });
    seen.insert(match record.attempt.fence {
        Fence::Write => "fence Write",
        Fence::At(_) => "fence At",
    });
    seen.insert(match record.attempt.end {
        End::Running => "end Running",
        End::Completed => "end Completed",
        End::Rejected => "end Rejected",
        End::Failed => "end Failed",
        End::FailedUnknown => "end FailedUnknown",
        End::Released => "end Released",
        End::Lapsed { started: false } => "end Lapsed",
        End::Lapsed { started: true } => "end Lapsed, started",
        End::Resolved => "end Resolved",
        End::TakenOver => "end TakenOver",
    });
    let mut span = |span: Span| match span {
        Span::For(_) => seen.insert("span For"),
        Span::Forever => seen.insert("span Forever"),
    };
    span(record.rules.open_retention);
    match &record.state {
        State::Committed(done) | State::Rejected(done) => span(done.retention),
        State::Tombstone(stone) => span(stone.retention),
        State::Pending(_) | State::Open(_) | State::InDoubt(_) => true,
    };
    seen.insert(match &record.state {
        State::Pending(pending) if pending.started => "state Pending",
        State::Pending(_) => "state Pending, not started",
        State::Open(open) if open.failure.is_none() => "state Open",
        State::Open(_) => "state Open with failure",
        State::InDoubt(doubt) if doubt.next_probe.is_none() => "state InDoubt",
        State::InDoubt(_) => "state InDoubt with probe",
        State::Committed(_) => "state Committed",
        State::Rejected(_) => "state Rejected",
        State::Tombstone(stone) if stone.rejected => "state Tombstone, rejected",
        State::Tombstone(_) => "state Tombstone",
    });
    let outcome = match &record.state {
        State::Committed(done) | State::Rejected(done) => Some(&done.outcome),
        State::Open(open) => open.failure.as_ref(),
        State::Pending(_) | State::InDoubt(_) | State::Tombstone(_) => None,
    };
    if let Some(outcome) = outcome {
        mark_outcome(seen, outcome);
    }
    seen.extend((record.past.len() == 8).then_some("past"));
    seen.extend(record.attempt.lease.map(|_| "lease"));
    seen.extend(record.past.iter().find_map(|past| past.lease).map(|_| "past lease"));
    seen.extend((record.evidence.len() == 4).then_some("evidence"));
    seen.extend(record.resolved.is_some().then_some("resolved"));
    seen.extend(
        (record.print.as_ref().is_some_and(|p| p.digests().count() == 4) && record.guard_before.is_some())
            .then_some("prints"),
    );
}

fn mark_outcome(seen: &mut BTreeSet<&'static str>, outcome: &Outcome) {
    seen.insert(match outcome.body {
        Body::Empty => "body Empty",
        Body::Inline(_) => "body Inline",
        Body::Stored { .. } => "body Stored",
        Body::Uncaptured { .. } => "body Uncaptured",
        Body::Handle(_) => "body Handle",
    });
    seen.insert(match outcome.class {
        OutcomeClass::Success => "class 1",
        OutcomeClass::FinalFailure => "class 2",
        OutcomeClass::RetryableFailure => "class 3",
        OutcomeClass::NotRecordable => "class 4",
        OutcomeClass::NotAdmitted => "class 5",
        OutcomeClass::Cancelled => "class 6",
        OutcomeClass::Unknown => "class 7",
    });
}

#[test]
fn no_changed_byte_is_taken_for_a_record() {
    for (name, bytes, _) in goldens() {
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            for flip in 1..=255_u8 {
                changed[at] = bytes[at] ^ flip;
                assert!(decode(changed.clone()).is_err(), "{name}: byte {at} ^ {flip:#04x}");
            }
        }
    }
}

#[test]
fn no_piece_of_a_record_is_taken_for_one() {
    for (name, bytes, _) in goldens() {
        for length in 0..bytes.len() {
            assert!(decode(bytes[..length].to_vec()).is_err(), "{name}: the first {length}");
            assert!(decode(bytes[bytes.len() - length..].to_vec()).is_err(), "{name}: the last {length}");
        }
        for extra in [&[0][..], &[0xff], &[0; 4], &bytes] {
            assert!(decode([&bytes, extra].concat()).is_err(), "{name}: {} bytes more", extra.len());
        }
    }
}

#[test]
fn a_newer_format_is_said_to_be_one() {
    for (name, bytes, _) in goldens() {
        for version in [5, 6, 255] {
            let mut newer = bytes.clone();
            newer[0] = version;
            let error = decode(newer).unwrap_err();
            assert_eq!(error, CodecError::Newer { found: version, known: 4 }, "{name}");
            let text = format!("the record has format {version}, this program reads up to 4; use a newer Hapax");
            assert_eq!(error.to_string(), text);
        }
        let mut none = bytes;
        none[0] = 0;
        assert_eq!(decode(none).unwrap_err(), CodecError::Invalid { what: "format version" });
    }
}
