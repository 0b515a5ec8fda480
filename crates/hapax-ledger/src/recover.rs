//! Opening a directory: what is there, what of it is whole, and where to go on.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    sync::atomic::Ordering,
};

use hapax_core::Stamp;

use crate::{
    append::Tail,
    bodies,
    check::Damage,
    clock::StoreTime,
    disk::{Disk, Mode, read_all},
    entry::Entry,
    error::OpenError,
    frame::{Frame, HEADER, Header},
    hands::{self, Hands},
    hint::Hint,
    index::{Index, Live},
    lock,
    log::Log,
    meta,
    options::Options,
    segment::{self, Segment},
    shared::Stored,
    slot::LIVE,
    walk::{self, Summary, slot_of},
};

/// What a start found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Recovered {
    pub records: u64,
    pub segments: u64,
    /// Segments whose hint was missing or not to be trusted, and which were read whole.
    pub read_whole: u64,
    /// Where a frame was cut off that had not been finished, and so was never acknowledged.
    pub torn: Option<Damage>,
}

pub(crate) struct Opened {
    pub(crate) log: Arc<Log>,
    pub(crate) index: Index,
    pub(crate) time: StoreTime,
    pub(crate) tail: Tail,
    pub(crate) recovered: Recovered,
}

/// The names of a ledger's files.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) segments: BTreeSet<u32>,
    pub(crate) hints: BTreeSet<u32>,
    pub(crate) spares: Vec<String>,
    pub(crate) passing: Vec<String>,
}

impl Files {
    pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Self, OpenError> {
        let mut files = Self::default();
        for name in disk.list(dir).map_err(OpenError::io(dir, "list its files"))? {
            if let Some(number) = segment::number(&name) {
                files.segments.insert(number);
            } else if let Some(number) = segment::hint_number(&name) {
                files.hints.insert(number);
            } else if Log::is_spare(&name) {
                files.spares.push(name);
            } else if name.ends_with(".tmp") {
                files.passing.push(name);
            }
        }
        Ok(files)
    }
}

/// Whether a directory is a ledger, without looking into it.
#[must_use]
pub fn is_ledger(dir: &Path) -> bool {
    dir.join(meta::NAME).is_file()
}

/// Whether a ledger has a file or a directory of this name.
#[must_use]
pub fn is_name_of_a_file(name: &str) -> bool {
    let numbered = segment::number(name).is_some() || segment::hint_number(name).is_some();
    let own = [meta::NAME, lock::NAME, hands::NAME, bodies::DIR].contains(&name);
    numbered || own || Log::is_spare(name) || name.ends_with(".tmp")
}

pub(crate) fn corrupt(dir: &Path, file: String, offset: u64, what: impl Into<String>) -> OpenError {
    OpenError::Corrupt { path: dir.to_owned(), damage: Damage { file, offset, what: what.into() } }
}

/// The directory is locked by the caller.
pub(crate) fn open(options: &Options) -> Result<Opened, OpenError> {
    let dir = options.path.as_path();
    let disk = &options.disk;
    let io = |doing| OpenError::io(dir, doing);
    let known = meta::read(&**disk, dir)?;
    let mut files = Files::list(&**disk, dir)?;
    for name in std::mem::take(&mut files.passing) {
        disk.remove(&dir.join(name)).map_err(io("remove what an earlier end left behind"))?;
    }
    let store = match known {
        Some(store) if files.segments.is_empty() => {
            let _ = store;
            return Err(corrupt(dir, "*.seg".into(), 0, "all segments are missing"));
        }
        Some(store) => store,
        None => create(options, &files)?,
    };
    let log = Arc::new(Log::new(options, store));
    if known.is_none() {
        files = Files::list(&**disk, dir)?;
    }
    for name in &files.spares {
        let file = disk.open(&dir.join(name), Mode::Read).map_err(io("open a spare"))?;
        let size = file.length().map_err(io("measure a spare"))?;
        if size >= options.first_segment_bytes {
            log.adopt_spare(name.clone(), size);
        } else {
            disk.remove(&dir.join(name)).map_err(io("remove a spare"))?;
        }
    }
    let mut loader = Loader { dir, log: &log, options, recovered: Recovered::default() };
    let (index, tail, last_frame) = loader.load(&files)?;
    let recovered = loader.recovered;
    // The last frame may so far be held by the page cache alone: if the last process was killed, or if its sync failed,
    // after which the cache may believe that there is nothing left to write. It is about to be shown, so it is written
    // again, byte for byte, and synced first.
    let bytes =
        tail.active.read(last_frame, (tail.active.end() - last_frame) as usize).map_err(io("read a segment"))?;
    tail.active.file.write_at(&bytes, last_frame).map_err(io("write to the newest segment"))?;
    tail.active.file.sync().map_err(io("sync the newest segment"))?;
    disk.sync_dir(dir).map_err(io("sync it"))?;
    let last = (tail.last_stamp > 0).then_some(Stamp(tail.last_stamp));
    let time = StoreTime::open(options.clock.clone(), last, Hands::read(&**disk, dir));
    if let Some(hands) = time.hands {
        hands.write(&**disk, dir);
    }
    settle(&index, &log, &time, options, dir)?;
    let mut recovered = recovered;
    recovered.records = index.len() as u64;
    Ok(Opened { log, index, time, tail, recovered })
}

/// A new store. The file that makes it one comes last.
fn create(options: &Options, files: &Files) -> Result<[u8; 16], OpenError> {
    let dir = options.path.as_path();
    let disk = &*options.disk;
    let io = |doing| OpenError::io(dir, doing);
    for number in &files.segments {
        // Left by a start that did not get as far as naming the store: so it holds nothing.
        let path = dir.join(segment::name(*number));
        let file = disk.open(&path, Mode::Read).map_err(io("open a segment"))?;
        let bytes = read_all(&*file, options.first_segment_bytes).map_err(io("read a segment"))?;
        if *number != 1 || bytes.iter().any(|byte| *byte != 0) {
            return Err(OpenError::NotALedger {
                path: dir.to_owned(),
                reason: "there are segments but no `ledger` file".into(),
            });
        }
    }
    let mut store = [0; 16];
    getrandom::fill(&mut store).map_err(|error| io("find random bytes")(std::io::Error::other(error.to_string())))?;
    let file = disk.open(&dir.join(segment::name(1)), Mode::Create).map_err(io("create a segment"))?;
    let zeros = vec![0; options.first_segment_bytes as usize];
    file.write_at(&zeros, 0).and_then(|()| file.sync()).map_err(io("write a segment"))?;
    disk.sync_dir(dir).map_err(io("sync it"))?;
    meta::write(disk, dir, &store).map_err(io("write its `ledger` file"))?;
    Ok(store)
}

const CUT_OFF: &str = "a frame that was never finished, and so never acknowledged, was cut off";

struct Loader<'a> {
    dir: &'a Path,
    log: &'a Arc<Log>,
    options: &'a Options,
    recovered: Recovered,
}

impl Loader<'_> {
    /// The last number: where the last frame starts.
    fn load(&mut self, files: &Files) -> Result<(Index, Tail, u64), OpenError> {
        let dir = self.dir;
        let mut segments = BTreeMap::new();
        let mut before: Option<u32> = None;
        for &number in &files.segments {
            if let Some(before) = before
                && before + 1 != number
            {
                return Err(corrupt(dir, segment::name(before + 1), 0, "the segment is missing"));
            }
            before = Some(number);
            let path = dir.join(segment::name(number));
            let file = self.log.disk.open(&path, Mode::Write).map_err(OpenError::io(&path, "open it"))?;
            let size = file.length().map_err(OpenError::io(&path, "measure it"))?;
            segments.insert(number, Arc::new(Segment::new(number, file, size, self.log.seed(number))));
        }
        let oldest = segments.keys().next().copied().unwrap_or(1);
        let index = Index::new(&self.log.store, oldest);
        let last = self.last_with_data(&segments)?;
        let mut summary: Option<(u32, Summary)> = None;
        for segment in segments.values().filter(|segment| Some(segment.number) <= last) {
            let is_last = Some(segment.number) == last;
            let before = summary.map(|(_, summary)| summary);
            let Some(found) = self.load_segment(&index, segment, is_last, before)? else {
                // Passed over before anything was written to it. That nothing is missing is shown by the next frame,
                // which names the one before it: if it is not the one known here, the start is refused below.
                segment.first_version.store(before.map_or(1, |before| before.next_version), Ordering::Release);
                segment.seal();
                self.recovered.segments += 1;
                continue;
            };
            if let Some((number, known)) = summary
                && known.last_checksum != found.first_previous
            {
                let what = "the segment's last frames are missing";
                return Err(corrupt(dir, segment::name(number), known.end, what));
            }
            segment.first_version.store(found.first_version, Ordering::Release);
            segment.set_end(found.end);
            if !is_last {
                segment.seal();
            }
            summary = Some((segment.number, found));
            self.recovered.segments += 1;
        }
        let end = summary.map_or(0, |(_, summary)| summary.last_checksum);
        if let Some(torn) = self.torn_behind(&segments, last, end)? {
            self.recovered.torn = Some(torn);
        }
        let active = self.adopt(&segments, last)?;
        for &number in files.hints.iter().filter(|number| !files.segments.contains(number)) {
            let path = dir.join(segment::hint_name(number));
            self.log.disk.remove(&path).map_err(OpenError::io(&path, "remove it"))?;
        }
        let summary = summary.map(|(_, summary)| summary).unwrap_or_default();
        let tail = Tail {
            active,
            previous: summary.last_checksum,
            next_version: summary.next_version.max(1),
            last_stamp: summary.last_stamp,
        };
        Ok((index, tail, summary.last_frame))
    }

    /// Segments behind the last one with data are ready for use, or not large enough to be.
    fn adopt(&self, segments: &BTreeMap<u32, Arc<Segment>>, last: Option<u32>) -> Result<Arc<Segment>, OpenError> {
        let mut active = None;
        let empty: Vec<_> = segments.values().filter(|segment| Some(segment.number) > last).collect();
        for segment in segments.values().filter(|segment| Some(segment.number) <= last) {
            self.log.adopt(segment.clone(), false);
            active = Some(segment.clone());
        }
        let mut keep = true;
        for (at, segment) in empty.iter().enumerate() {
            // One for use now if there is nothing else, one ready.
            let wanted = if last.is_none() { 2 } else { 1 };
            keep &= at < wanted && segment.size >= self.options.first_segment_bytes;
            if keep {
                let ready = active.is_some();
                self.log.adopt((*segment).clone(), ready);
                active.get_or_insert_with(|| (*segment).clone());
            }
        }
        if !keep {
            // From the highest number down, so that no gap is ever left.
            for segment in empty.iter().rev() {
                if self.log.segment(segment.number).is_none() {
                    let path = self.dir.join(segment::name(segment.number));
                    self.log.disk.remove(&path).map_err(OpenError::io(&path, "remove it"))?;
                    self.log.disk.sync_dir(self.dir).map_err(OpenError::io(self.dir, "sync it"))?;
                }
            }
        }
        match active {
            Some(active) => Ok(active),
            None => self.log.roll().map_err(OpenError::io(self.dir, "create a segment")),
        }
    }

    /// The frame that was never finished may have been the first of the next segment.
    fn torn_behind(
        &self,
        segments: &BTreeMap<u32, Arc<Segment>>,
        last: Option<u32>,
        end: u32,
    ) -> Result<Option<Damage>, OpenError> {
        let Some(next) = segments.values().find(|segment| Some(segment.number) > last) else { return Ok(None) };
        let name = segment::name(next.number);
        let head = next.read(0, HEADER).map_err(OpenError::io(self.dir.join(&name), "read it"))?;
        Ok(walk::begins_behind(&head, end).then(|| Damage { file: name, offset: 0, what: CUT_OFF.to_owned() }))
    }

    fn last_with_data(&self, segments: &BTreeMap<u32, Arc<Segment>>) -> Result<Option<u32>, OpenError> {
        for segment in segments.values().rev() {
            let io = || OpenError::io(self.dir.join(segment::name(segment.number)), "read it");
            let head = segment.read(0, HEADER).map_err(io())?;
            let length = Header::parse(&head).map_or(0, |header| header.length as usize).min(segment.size as usize);
            let first = segment.read(0, length).map_err(io())?;
            if Frame::open(&first, segment.seed, 0).is_some() {
                return Ok(Some(segment.number));
            }
            // No frame at its start; but is there one further on?
            let bytes = segment.read(0, segment.size as usize).map_err(io())?;
            if let Some(behind) = crate::frame::find_after(&bytes, segment.seed, 0) {
                let what = format!("the first frame is damaged, and whole data follows at byte {behind}");
                return Err(corrupt(self.dir, segment::name(segment.number), 0, what));
            }
        }
        Ok(None)
    }

    fn load_segment(
        &mut self,
        index: &Index,
        segment: &Arc<Segment>,
        is_last: bool,
        before: Option<Summary>,
    ) -> Result<Option<Summary>, OpenError> {
        let name = segment::name(segment.number);
        let mut books = index.books();
        if !is_last
            && let Some(hint) = Hint::read(self.log, segment.number)
            && before.is_none_or(|before| before.last_checksum == hint.summary.first_previous)
        {
            for entrant in hint.slots() {
                index.load(&mut books, entrant);
            }
            segment.set_hinted(hint.bytes());
            return Ok(Some(hint.summary));
        }
        let bytes = segment.read(0, segment.size as usize).map_err(OpenError::io(self.dir.join(&name), "read it"))?;
        let walked = walk::walk(&bytes, segment.seed, |offset, entry_bytes, entry| {
            index.load(&mut books, slot_of(index, segment.number, offset, entry_bytes.len(), entry));
        });
        self.recovered.read_whole += 1;
        let walked = walked.map_err(|broken| corrupt(self.dir, name.clone(), broken.offset, broken.what))?;
        let Some(summary) = walked.summary else {
            // Of the oldest segment nobody could tell that a frame is missing; of any other the chain tells.
            return match (before, walked.data_behind) {
                (Some(_), None) => Ok(None),
                (None, _) | (_, Some(_)) => {
                    Err(corrupt(self.dir, name, 0, "the segment holds no whole frame, and later ones do"))
                }
            };
        };
        if let Some(behind) = walked.data_behind {
            let what = format!("a frame is damaged, and whole data follows at byte {behind}");
            return Err(corrupt(self.dir, name, summary.end, what));
        }
        if is_last && walked.torn {
            self.recovered.torn = Some(Damage { file: name, offset: summary.end, what: CUT_OFF.to_owned() });
        }
        Ok(Some(summary))
    }
}

/// Reads again what has to be in memory, and lets go of what has expired since.
fn settle(index: &Index, log: &Log, time: &StoreTime, options: &Options, dir: &Path) -> Result<(), OpenError> {
    index.books().going.run_dry();
    loop {
        let now = time.now();
        index.refill_going(options.removal_memory, now);
        let done = index.pass_on(&mut index.books(), now, options.removal_memory, usize::MAX);
        if done && index.books().going.covers(now) {
            break;
        }
    }
    for slot in index.unread() {
        let place = slot.place();
        let stored = match log.segment(place.segment) {
            None => None,
            Some(segment) => {
                let bytes = segment.read(place.offset, place.length as usize);
                let bytes = bytes::Bytes::from(bytes.map_err(OpenError::io(dir, "read a segment"))?);
                let entry = Entry::open(&bytes, segment.seed, place.offset);
                entry.filter(|entry| entry.version == slot.version()).map(|entry| Stored::new(entry, &bytes))
            }
        };
        let Some(Stored { id, version, stamp, record: Some(envelope) }) = stored else {
            return Err(corrupt(dir, segment::name(place.segment), place.offset, "a record is damaged"));
        };
        // What a hint said of it must be true: a slot that waits for a live record which never comes would be waited for.
        let is_live = envelope.lease_end.is_some() || envelope.in_doubt;
        if index.key(&id) != slot.key() || is_live != slot.has(LIVE) {
            let what = "a record is another one than its hint says; remove the hint";
            return Err(corrupt(dir, segment::name(place.segment), place.offset, what));
        }
        index.revive(Live { id, version, stamp, envelope });
    }
    // Asked for by the sweeper, which can wait; the start cannot.
    index.books().expiry.run_dry();
    Ok(())
}
