//! For fuzzing: any bytes in the place of a ledger's files. What comes of it is an error or data, never a panic.
//!
//! The first byte of an input says in whose place the others are put, and whether their checksums are made to fit, so that
//! what lies behind the checksums is tried as well.

use std::{
    future::Future,
    path::Path,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use hapax_core::{Id, Stamp, Tag, Version};
use hapax_store::{Counted, Due, Entry as Listed, Envelope, Index, Kind, List, Store};

use crate::{
    Clock, OpenError, Options, check_on,
    disk::{Disk, Image, Mode, RecordingDisk},
    entry,
    frame::{self, HEADER, Header, Seed},
    ledger::Ledger,
    meta, repair_on, segment,
};

const DIR: &str = "/l";
const STORE: [u8; 16] = [7; 16];
const FIRST: u64 = 4096;

/// In whose place the bytes are put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    OldSegment,
    LastSegment,
    Hint,
    Meta,
    Body,
}

const PARTS: [Part; 5] = [Part::OldSegment, Part::LastSegment, Part::Hint, Part::Meta, Part::Body];

impl Part {
    fn path(self) -> String {
        match self {
            Self::OldSegment => format!("{DIR}/{}", segment::name(1)),
            Self::LastSegment => format!("{DIR}/{}", segment::name(2)),
            Self::Hint => format!("{DIR}/{}", segment::hint_name(1)),
            Self::Meta => format!("{DIR}/{}", meta::NAME),
            Self::Body => format!("{DIR}/bodies/{}", Id([9; 32])),
        }
    }
}

/// Polls once: without threads nothing has to wait.
fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// One moment for all: the same input means the same each time.
#[derive(Debug)]
struct Standing;

impl Clock for Standing {
    fn wall_ms(&self) -> u64 {
        1_700_000_000_000
    }

    fn monotonic_ms(&self) -> u64 {
        5_000
    }
}

fn options(disk: &RecordingDisk) -> Options {
    Options::new(DIR).segment_bytes(FIRST, 2 * FIRST).disk(Arc::new(disk.clone())).clock(Arc::new(Standing))
}

fn record(number: u8) -> Envelope {
    let entries = number.is_multiple_of(3).then_some(Listed { list: List::Queue, tag: Tag([number; 16]), order: 5 });
    Envelope {
        kind: Kind::OPERATION,
        surface: Tag([1; 16]),
        tenant: Tag([number % 2; 16]),
        counted: if number % 4 == 1 { Counted::Tombstone } else { Counted::Record },
        lease_end: number.is_multiple_of(5).then_some(Due::At(Stamp(u64::from(number) << 30))),
        expiry: number.is_multiple_of(2).then_some(Due::After(hapax_core::Millis(1_000))),
        gone: number.is_multiple_of(7).then_some(Due::After(hapax_core::Millis(1 << 40))),
        in_doubt: number.is_multiple_of(11),
        entries: entries.into_iter().collect(),
        beside: 0,
        payload: Bytes::from(vec![number; usize::from(number) * 3]),
    }
}

/// A small ledger with two segments, a hint and a body.
#[must_use]
pub fn sample() -> Image {
    let disk = RecordingDisk::untraced();
    let made = || -> Option<()> {
        let file = disk.open(Path::new(&Part::OldSegment.path()), Mode::Create).ok()?;
        file.write_at(&[0; FIRST as usize], 0).ok()?;
        meta::write(&disk, Path::new(DIR), &STORE).ok()?;
        let (ledger, mut stepper) = Ledger::open_stepped(options(&disk)).ok()?;
        for number in 0..30 {
            let id = Id([number; 32]);
            let mut swap = pin!(ledger.swap(&id, Version::NEVER, (number != 13).then(|| record(number))));
            let _ = now(swap.as_mut());
            stepper.write();
            let _ = now(swap.as_mut());
            stepper.keep();
        }
        now(ledger.put_body(&Id([1; 32]), hapax_store::BodyId([9; 32]), Bytes::from_static(b"a body")))?.ok()
    };
    let _ = made();
    disk.image()
}

/// Inputs to start from: each part as a ledger wrote it.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let image = sample();
    let one = |at: usize, part: &Part, forged: bool| {
        let bytes = image.bytes(Path::new(&part.path())).unwrap_or_default();
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 1).next_multiple_of(8));
        let mut input = vec![at as u8 | if forged { 128 } else { 0 }];
        input.extend_from_slice(&bytes[..end.min(bytes.len())]);
        input
    };
    let parts = PARTS.iter().enumerate();
    parts.flat_map(|(at, part)| [one(at, part, false), one(at, part, true)]).collect()
}

/// What sort of answer there was, or what must not be.
pub fn run(base: &Image, input: &[u8]) -> Result<u64, String> {
    let Some((&how, bytes)) = input.split_first() else { return Ok(0) };
    let part = PARTS[usize::from(how & 127) % PARTS.len()];
    let mut bytes = bytes.to_vec();
    let forged = how & 128 != 0;
    if forged {
        forge(part, &mut bytes);
    }
    let mut image = base.clone();
    image.edit(Path::new(&part.path()), |file| *file = bytes);
    let answer = open(&image, part, forged)?;
    Ok(u64::from(how) << 32 | answer)
}

fn open(image: &Image, part: Part, forged: bool) -> Result<u64, String> {
    let disk = RecordingDisk::unrecorded(image.clone());
    let checked = check_on(&disk, Path::new(DIR));
    let target = Options::new("/copy").disk(Arc::new(RecordingDisk::untraced())).segment_bytes(FIRST, FIRST);
    let repaired = repair_on(Arc::new(disk.clone()), Path::new(DIR), &target);
    if checked.is_ok() != repaired.is_ok() {
        return Err(format!("check says {checked:?}, repair {repaired:?}"));
    }
    let whole = checked.as_ref().is_ok_and(crate::Report::is_whole);
    let opened = Ledger::open_stepped(options(&disk));
    let (ledger, mut stepper) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // A hint whose checksum was made to fit may say anything; nobody but a program of ours makes one fit.
            let expected =
                matches!(error, OpenError::Corrupt { .. } | OpenError::NotALedger { .. } | OpenError::Newer { .. });
            if !expected || (whole && !(forged && part == Part::Hint)) {
                return Err(format!("check finds nothing, a start says {error}"));
            }
            return Ok(1);
        }
    };
    let mut answers = 0;
    for number in 0..32 {
        let read = now(ledger.get(&Id([number; 32]))).ok_or("a get waits")?;
        answers = answers << 1 | u64::from(read.is_ok_and(|snapshot| snapshot.record.is_some()));
    }
    let until = Stamp(u64::MAX);
    for index in [Index::LeaseEnd { until }, Index::Expiry { until }, Index::InDoubt] {
        let _ = now(ledger.scan(index, None, 100)).ok_or("a scan waits")?;
    }
    let _ = now(ledger.changes(None, 100)).ok_or("the feed waits")?;
    let _ = now(ledger.get_body(hapax_store::BodyId([9; 32]))).ok_or("a body waits")?;
    let _ = now(ledger.usage(Tag([1; 16]))).ok_or("a count waits")?;
    for _ in 0..4 {
        stepper.keep();
        stepper.write();
    }
    let id = Id([99; 32]);
    let mut swap = pin!(ledger.swap(&id, Version::NEVER, Some(record(1))));
    if now(swap.as_mut()).is_none() {
        stepper.write();
        let _ = now(swap.as_mut()).ok_or("a swap is never answered")?;
    }
    Ok(2 + (answers & 0xff))
}

fn forge(part: Part, bytes: &mut [u8]) {
    let seed = |number| Seed::new(&STORE, number);
    let put = |bytes: &mut [u8], at: usize, sum: u32| {
        if let Some(place) = bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    };
    match part {
        Part::OldSegment => forge_frames(seed(1), bytes),
        Part::LastSegment => forge_frames(seed(2), bytes),
        Part::Hint => {
            let sum = seed(1).checksum(0, bytes.get(8..).unwrap_or_default());
            put(bytes, 4, sum);
        }
        Part::Meta => {
            let sum = crc32c::crc32c(bytes.get(..28).unwrap_or_default());
            put(bytes, 28, sum);
        }
        Part::Body => {
            let sum = crc32c::crc32c_append(crc32c::crc32c(&STORE), bytes.get(8..).unwrap_or_default());
            put(bytes, 4, sum);
        }
    }
}

/// Frame by frame, as long as there is something like one; each names the one before it.
fn forge_frames(seed: Seed, bytes: &mut [u8]) {
    let mut offset = 0;
    let mut before = None;
    while let Some(header) = bytes.get(offset..).and_then(Header::parse) {
        let Some(frame) = bytes.get_mut(offset..offset + header.length as usize) else { return };
        let mut at = HEADER;
        let mut count = 0;
        while let Some((length, _)) = entry::measure(frame, at) {
            entry::seal(frame, at, seed, (offset + at) as u64);
            at += length;
            count += 1;
        }
        let previous = before.unwrap_or(header.previous);
        let sum = frame::seal(frame, seed, offset as u64, count, header.first_version, header.stamp, previous);
        before = Some(sum);
        offset += header.length as usize;
    }
}
