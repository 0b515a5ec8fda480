//! Looks at every byte of a ledger and changes none.

use std::{collections::BTreeSet, fmt, io, path::Path};

use bytes::Bytes;
use hapax_core::{Id, Stamp, Version};
use hapax_store::{BodyId, codec};

use crate::{
    bodies,
    clock::{Clock as _, SystemClock},
    disk::{Disk, Mode, RealDisk, read_all},
    entry::{Entry, What},
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
    /// Segments that hold nothing although later ones do. Harmless: the chain of frames goes on over them.
    pub passed_over: u64,
    /// A frame that was never finished: harmless, the next start cuts it off.
    pub torn: Option<Damage>,
    /// Empty: all is well.
    pub damage: Vec<Damage>,
    /// The latest stamp of any frame, marks included.
    pub(crate) last_stamp: u64,
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
    let _lock = match lock::take(disk, dir, std::time::Duration::ZERO) {
        // A snapshot, mounted to be looked at: nobody writes there, and no lock can be made.
        Err(OpenError::ReadOnly { source, .. }) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => None,
        taken => Some(taken?),
    };
    let mut newest = Newest::default();
    let mut report = survey(disk, dir, &mut |_, entry| newest.see(entry))?;
    report.ids = newest.versions.len() as u64;
    newest.miss_bodies(disk, dir, &mut report)?;
    Ok(report)
}

type Map<V> = hashbrown::HashMap<Id, V, foldhash::fast::RandomState>;

/// The newest of each record, as far as it says which bodies have to be there.
#[derive(Default)]
struct Newest {
    versions: Map<Version>,
    /// Only of records that name some, with the moment from which on nobody misses them.
    bodies: Map<(Vec<BodyId>, Option<Stamp>)>,
}

impl Newest {
    fn see(&mut self, entry: &Entry<'_>) {
        let newest = self.versions.entry(entry.id).or_insert(Version::NEVER);
        // What was carried over is the same record in another place.
        if entry.version < *newest {
            return;
        }
        *newest = entry.version;
        self.bodies.remove(&entry.id);
        let What::Record(record) = &entry.what else { return };
        let envelope = record.clone().envelope(Bytes::copy_from_slice(record.payload));
        // Of another kind, or of a form that this program does not know: it names nothing that could be missed here.
        let Ok(operation) = codec::open(&envelope) else { return };
        let bodies: Vec<_> = operation.stored_bodies().collect();
        if !bodies.is_empty() {
            let gone = envelope.gone.map(|gone| gone.resolve(entry.stamp));
            self.bodies.insert(entry.id, (bodies, gone));
        }
    }

    /// A body that a record names and that is not there: its answer cannot be given again.
    fn miss_bodies(&self, disk: &dyn Disk, dir: &Path, report: &mut Report) -> Result<(), OpenError> {
        if self.bodies.is_empty() {
            return Ok(());
        }
        let there: BTreeSet<BodyId> = bodies_in(disk, dir)?.into_iter().collect();
        // The ledger's own time is this or later, and what is over by it may have been swept.
        let now = Stamp(report.last_stamp.max(SystemClock::new().wall_ms()));
        for (id, (bodies, gone)) in &self.bodies {
            if gone.is_some_and(|gone| gone <= now) {
                continue;
            }
            for body in bodies.iter().filter(|body| !there.contains(*body)) {
                report.add(
                    bodies::place_of(*body),
                    0,
                    format!("it is missing, and the record of operation {id} names it"),
                );
            }
        }
        report.damage.sort_by(|one, other| (&one.file, one.offset).cmp(&(&other.file, other.offset)));
        Ok(())
    }
}

pub(crate) fn store_of(disk: &dyn Disk, dir: &Path) -> Result<[u8; 16], OpenError> {
    meta::read(disk, dir)?
        .ok_or_else(|| OpenError::NotALedger { path: dir.to_owned(), reason: "it has no `ledger` file".into() })
}

/// Visits every whole entry, also of the frames behind damage.
pub(crate) fn survey(
    disk: &dyn Disk,
    dir: &Path,
    visit: &mut dyn FnMut(&[u8], &Entry<'_>),
) -> Result<Report, OpenError> {
    let store = store_of(disk, dir)?;
    let files = Files::list(disk, dir)?;
    let mut report = Report::default();
    let seed = |number| Seed::new(&store, number);
    // One segment at a time: all of them may be more than fits into memory.
    let read = |number| {
        let name = segment::name(number);
        disk.open(&dir.join(name), Mode::Read).and_then(|file| read_all(&*file, u64::MAX))
    };
    let holds_frames = |number: &u32| {
        // What cannot be read is reported below, so it counts as if it held some.
        read(*number).map_or(true, |bytes| frame::find_after(&bytes, seed(*number), 0).is_some())
    };
    let last = files.segments.iter().rev().copied().find(holds_frames);
    let mut seen: Option<u32> = None;
    let mut known: Option<(u32, Option<Summary>)> = None;
    for &number in files.segments.iter().filter(|number| Some(**number) <= last) {
        if let Some(seen) = seen
            && seen + 1 != number
        {
            report.add(segment::name(seen + 1), 0, "the segment is missing");
        }
        seen = Some(number);
        report.segments += 1;
        let bytes = match read(number) {
            Ok(bytes) => bytes,
            Err(error) => {
                report.add(segment::name(number), 0, format!("it cannot be read: {error}"));
                known = Some((number, None));
                continue;
            }
        };
        let place = Placed { number, seed: seed(number), is_oldest: known.is_none(), is_last: Some(number) == last };
        match survey_segment(&mut report, &place, &bytes, visit) {
            // It holds nothing. Whether it ever did is told by the frame behind it.
            Surveyed::Nothing => {
                report.passed_over += u64::from(known.is_some());
                continue;
            }
            Surveyed::Frames { first_previous, summary } => {
                if let Some((previous, Some(known))) = known
                    && first_previous.is_some_and(|first| first != known.last_checksum)
                {
                    report.add(segment::name(previous), known.end, "the segment's last frames are missing");
                }
                known = Some((number, summary));
            }
        }
        if files.hints.contains(&number) {
            let name = segment::hint_name(number);
            let hint = disk.open(&dir.join(&name), Mode::Read).and_then(|file| read_all(&*file, u64::MAX));
            let whole = hint.ok().and_then(|bytes| Hint::parse(&bytes, seed(number), number)).is_some();
            if !whole {
                report.add(name, 0, "the hint is damaged; it will be ignored");
            }
        }
    }
    // The frame that was never finished may have been the first of the next segment.
    let end = known.map_or(Some(0), |(_, summary)| summary.map(|summary| summary.last_checksum));
    if let (Some(end), Some(&next)) = (end, files.segments.iter().find(|number| Some(**number) > last))
        && read(next).is_ok_and(|bytes| walk::begins_behind(&bytes, end))
    {
        report.torn = Some(Damage { file: segment::name(next), offset: 0, what: NEVER_FINISHED.into() });
    }
    if files.segments.is_empty() {
        report.add("*.seg".into(), 0, "all segments are missing");
    }
    survey_bodies(disk, dir, &store, &mut report)?;
    Ok(report)
}

const NEVER_FINISHED: &str = "a frame that was never finished";

struct Placed {
    number: u32,
    seed: Seed,
    /// No frame is known of an older one.
    is_oldest: bool,
    is_last: bool,
}

enum Surveyed {
    /// Not one frame.
    Nothing,
    Frames {
        /// What the frame at its start names as the one before it.
        first_previous: Option<u32>,
        /// Unless something was wrong.
        summary: Option<Summary>,
    },
}

fn survey_segment(
    report: &mut Report,
    place: &Placed,
    bytes: &[u8],
    visit: &mut dyn FnMut(&[u8], &Entry<'_>),
) -> Surveyed {
    let name = segment::name(place.number);
    let seed = place.seed;
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
                report.last_stamp = report.last_stamp.max(frame.header.stamp);
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
            Surveyed::Frames { first_previous, summary: None }
        }
        Ok(walked) => {
            if walked.summary.is_none() && walked.data_behind.is_none() {
                if place.is_oldest {
                    report.add(name, 0, "the segment holds no whole frame, and later ones do");
                }
                return Surveyed::Nothing;
            }
            if place.is_last && walked.torn && walked.data_behind.is_none() {
                let offset = walked.summary.map_or(0, |summary| summary.end);
                report.torn = Some(Damage { file: name, offset, what: NEVER_FINISHED.into() });
            }
            Surveyed::Frames { first_previous, summary: walked.summary.filter(|_| walked.data_behind.is_none()) }
        }
    }
}

fn survey_bodies(disk: &dyn Disk, dir: &Path, store: &[u8; 16], report: &mut Report) -> Result<(), OpenError> {
    for body in bodies_in(disk, dir)? {
        report.bodies += 1;
        let file = bodies::place_of(body);
        let bytes = disk.open(&dir.join(&file), Mode::Read).and_then(|file| read_all(&*file, u64::MAX));
        let whole = bytes.ok().and_then(|bytes| bodies::parse(&bytes, body, crc32c::crc32c(store))).is_some();
        if !whole {
            report.add(file, 0, "the body is damaged");
        }
    }
    Ok(())
}

/// The bodies that are there, whole or not.
fn bodies_in(disk: &dyn Disk, dir: &Path) -> Result<Vec<BodyId>, OpenError> {
    let inside = dir.join(bodies::DIR);
    match disk.list(&inside) {
        Ok(names) => Ok(names.iter().filter_map(|name| bodies::parse_name(name)).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(OpenError::io(inside, "list its files")(error)),
    }
}
