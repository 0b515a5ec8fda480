//! Looks at every byte of a ledger and changes none.

use std::{fmt, path::Path};

use hapax_core::Id;

use crate::{
    bodies,
    disk::{Disk, Mode, RealDisk, read_all},
    error::OpenError,
    frame::{self, Frame, Seed},
    hint::Hint,
    lock, meta,
    recover::Files,
    segment,
    walk::{self, Summary},
};

/// A place, and what is wrong there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    pub file: String,
    pub offset: u64,
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} byte {}: {}", self.file, self.offset, self.what)
    }
}

/// What a check or a repair found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    pub segments: u64,
    pub frames: u64,
    pub entries: u64,
    pub bodies: u64,
    /// Ids with at least one whole entry.
    pub ids: u64,
    /// A frame that was never finished: harmless, the next start cuts it off.
    pub torn: Option<Damage>,
    /// Empty: all is well.
    pub damage: Vec<Damage>,
}

impl Report {
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty()
    }

    fn add(&mut self, file: String, offset: u64, what: impl Into<String>) {
        self.damage.push(Damage { file, offset, what: what.into() });
    }
}

/// Reads all segments, hints and bodies of the ledger in `path` and says what is damaged, and where. A ledger in use is
/// not looked at.
pub fn check(path: impl AsRef<Path>) -> Result<Report, OpenError> {
    check_on(&RealDisk, path.as_ref())
}

#[doc(hidden)]
pub fn check_on(disk: &dyn Disk, dir: &Path) -> Result<Report, OpenError> {
    let _lock = lock::take(disk, dir, std::time::Duration::ZERO)?;
    let mut ids = hashbrown::HashSet::<Id, foldhash::fast::RandomState>::default();
    let mut report = survey(disk, dir, &mut |_, entry| {
        ids.insert(entry.id);
    })?;
    report.ids = ids.len() as u64;
    Ok(report)
}

pub(crate) fn store_of(disk: &dyn Disk, dir: &Path) -> Result<[u8; 16], OpenError> {
    meta::read(disk, dir)?
        .ok_or_else(|| OpenError::NotALedger { path: dir.to_owned(), reason: "it has no `ledger` file".into() })
}

/// Visits every whole entry, also of the frames behind damage.
pub(crate) fn survey(
    disk: &dyn Disk,
    dir: &Path,
    visit: &mut dyn FnMut(&[u8], &crate::entry::Entry<'_>),
) -> Result<Report, OpenError> {
    let store = store_of(disk, dir)?;
    let files = Files::list(disk, dir)?;
    let mut report = Report::default();
    let mut contents = Vec::new();
    for &number in &files.segments {
        let name = segment::name(number);
        let file = disk.open(&dir.join(&name), Mode::Read).map_err(OpenError::io(dir.join(&name), "open it"))?;
        match read_all(&*file, u64::MAX) {
            Ok(bytes) => contents.push((number, bytes)),
            Err(error) => report.add(name, 0, format!("it cannot be read: {error}")),
        }
    }
    let seed = |number| Seed::new(&store, number);
    let last = contents.iter().rev().find(|(number, bytes)| frame::find_after(bytes, seed(*number), 0).is_some());
    let last = last.map(|(number, _)| *number);
    let mut before: Option<(u32, Option<Summary>)> = None;
    for (number, bytes) in contents.iter().filter(|(number, _)| Some(*number) <= last) {
        let number = *number;
        if let Some((previous, _)) = before
            && previous + 1 != number
        {
            report.add(segment::name(previous + 1), 0, "the segment is missing");
        }
        let found = survey_segment(&mut report, number, bytes, seed(number), Some(number) == last, visit);
        if let Some((previous, Some(known))) = before
            && let Some((first_previous, _)) = found
            && known.last_checksum != first_previous
        {
            report.add(segment::name(previous), known.end, "the segment's last frames are missing");
        }
        if files.hints.contains(&number) {
            let name = segment::hint_name(number);
            let hint = disk.open(&dir.join(&name), Mode::Read).and_then(|file| read_all(&*file, u64::MAX));
            let whole = hint.ok().and_then(|bytes| Hint::parse(&bytes, seed(number), number)).is_some();
            if !whole {
                report.add(name, 0, "the hint is damaged; it will be ignored");
            }
        }
        report.segments += 1;
        before = Some((number, found.and_then(|(_, summary)| summary)));
    }
    if last.is_none() && contents.is_empty() {
        report.add("*.seg".into(), 0, "all segments are missing");
    }
    survey_bodies(disk, dir, &store, &mut report)?;
    Ok(report)
}

/// Returns what the first frame names as its predecessor, and the summary if nothing was wrong.
fn survey_segment(
    report: &mut Report,
    number: u32,
    bytes: &[u8],
    seed: Seed,
    is_last: bool,
    visit: &mut dyn FnMut(&[u8], &crate::entry::Entry<'_>),
) -> Option<(u32, Option<Summary>)> {
    let name = segment::name(number);
    let walked = walk::walk(bytes, seed, |_, _, _| {});
    let mut first_previous = None;
    let mut at = Some(0);
    // Frame by frame, and over what is damaged to the next whole one.
    while let Some(offset) = at {
        match bytes.get(offset as usize..).and_then(|rest| Frame::open(rest, seed, offset)) {
            Some(frame) => {
                if offset == 0 {
                    first_previous = Some(frame.header.previous);
                }
                report.frames += 1;
                for (place, entry_bytes, entry) in frame.entries() {
                    match entry {
                        Some(entry) => {
                            report.entries += 1;
                            visit(entry_bytes, &entry);
                        }
                        None => report.add(name.clone(), place, "an entry of an unknown form"),
                    }
                }
                at = Some(frame.end());
            }
            None => {
                at = frame::find_after(bytes, seed, offset);
                if let Some(next) = at {
                    report.add(name.clone(), offset, format!("damaged up to byte {next}, where whole data goes on"));
                }
            }
        }
    }
    match walked {
        Err(broken) => {
            report.add(name, broken.offset, broken.what);
            first_previous.map(|first| (first, None))
        }
        Ok(walked) => {
            if walked.summary.is_none() && walked.data_behind.is_none() {
                report.add(name.clone(), 0, "the segment holds no whole frame, and later ones do");
            }
            if is_last && walked.torn && walked.data_behind.is_none() {
                let offset = walked.summary.map_or(0, |summary| summary.end);
                report.torn = Some(Damage { file: name, offset, what: "a frame that was never finished".into() });
            }
            let whole = walked.summary.filter(|_| walked.data_behind.is_none());
            first_previous.map(|first| (first, whole))
        }
    }
}

fn survey_bodies(disk: &dyn Disk, dir: &Path, store: &[u8; 16], report: &mut Report) -> Result<(), OpenError> {
    let inside = dir.join(bodies::DIR);
    let names = match disk.list(&inside) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OpenError::io(inside, "list its files")(error)),
    };
    for name in names {
        let Some(body) = bodies::parse_name(&name) else { continue };
        report.bodies += 1;
        let bytes = disk.open(&inside.join(&name), Mode::Read).and_then(|file| read_all(&*file, u64::MAX));
        let whole = bytes.ok().and_then(|bytes| bodies::parse(&bytes, body, crc32c::crc32c(store))).is_some();
        if !whole {
            report.add(format!("{}/{name}", bodies::DIR), 0, "the body is damaged");
        }
    }
    Ok(())
}
