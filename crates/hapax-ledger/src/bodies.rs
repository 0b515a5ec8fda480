//! Bodies that are too large for a record: a file each, whole under its name or not there at all.
//!
//! ```text
//!  0  magic "HXB1", checksum u32 (CRC-32C of all that follows, seeded with the store's id)
//!  8  owner 32, body id 32, stored u64, then the bytes
//! ```

use std::{
    collections::BTreeMap,
    io,
    ops::Bound,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use hapax_core::{Id, Stamp};
use hapax_store::{BodyId, BodyInfo, Cursor, Page, StoreError};
use parking_lot::Mutex;

use crate::{
    disk::{Disk, File, Mode, read_all},
    frame::{u32_at, u64_at},
    log::is_full,
};

pub(crate) const DIR: &str = "bodies";
const MAGIC: &[u8; 4] = b"HXB1";
const HEADER: usize = 80;

#[derive(Debug)]
pub(crate) struct Bodies {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    seed: u32,
    store: String,
    /// All durable bodies. What a start has found by its name only is looked at when somebody asks for it.
    known: Mutex<BTreeMap<BodyId, Option<BodyInfo>>>,
    /// How long the body is for which there was no room; 0: there is room as far as is known.
    missing: AtomicU64,
}

/// So much room is looked for at most: a body that is longer than the rest of the disk is no reason to refuse all others.
const ROOM: u64 = 1 << 20;
/// The passing name of what is written to find out.
const PROBE: &str = "room.tmp";

/// Written under a passing name, and not yet synced.
#[derive(Debug)]
pub(crate) struct Passing {
    file: Arc<dyn File>,
    pub(crate) info: BodyInfo,
}

/// A page of a list, as far as memory knows it.
#[derive(Debug)]
pub(crate) struct Listed {
    items: Vec<(BodyId, Option<BodyInfo>)>,
    next: Option<Cursor>,
}

impl Listed {
    /// Whether no disk is needed to answer.
    pub(crate) fn is_complete(&self) -> bool {
        self.items.iter().all(|(_, info)| info.is_some())
    }

    pub(crate) fn page(self) -> Page<BodyInfo> {
        Page { items: self.items.into_iter().filter_map(|(_, info)| info).collect(), next: self.next }
    }
}

impl Bodies {
    /// Removes what a put that never ended has left.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: PathBuf, store: &[u8; 16], name: String) -> io::Result<Self> {
        disk.create_dir(&dir)?;
        let mut known = BTreeMap::new();
        for name in disk.list(&dir)? {
            if name.ends_with(".tmp") {
                disk.remove(&dir.join(name))?;
            } else if let Some(body) = parse_name(&name) {
                known.insert(body, None);
            }
        }
        // A body that only the page cache held is found by its name all the same, and its owner may trust it.
        disk.sync_dir(&dir)?;
        let (known, missing) = (Mutex::new(known), AtomicU64::new(0));
        Ok(Self { disk, dir, seed: crc32c::crc32c(store), store: name, known, missing })
    }

    /// Whether the last body did not fit on the disk. Then no new work is taken: nobody could record what comes of it.
    pub(crate) fn is_tight(&self) -> bool {
        self.missing.load(Ordering::Acquire) > 0
    }

    /// There was no room for so long a body.
    pub(crate) fn lacks(&self, length: u64) {
        self.missing.fetch_max(length.clamp(1, ROOM), Ordering::AcqRel);
    }

    /// There was room for so long a body.
    pub(crate) fn had_room(&self, length: u64) {
        let _less = self.missing.fetch_update(Ordering::AcqRel, Ordering::Acquire, |missing| {
            (missing > 0 && length >= missing).then_some(0)
        });
    }

    /// Looks whether there is room again, by taking it and giving it back.
    pub(crate) fn has_room(&self) -> bool {
        let missing = self.missing.load(Ordering::Acquire);
        let path = self.dir.join(PROBE);
        let written = self.disk.open(&path, Mode::Create).and_then(|file| {
            file.write_at(&vec![0; missing as usize + HEADER], 0)?;
            file.sync()
        });
        let removed = self.disk.remove(&path);
        if written.and(removed).is_ok() {
            self.had_room(missing);
        }
        !self.is_tight()
    }

    pub(crate) fn write(&self, owner: &Id, body: BodyId, bytes: &[u8], stored: Stamp) -> io::Result<Passing> {
        let mut whole = Vec::with_capacity(HEADER + bytes.len());
        whole.extend_from_slice(MAGIC);
        whole.extend_from_slice(&[0; 4]);
        whole.extend_from_slice(&owner.0);
        whole.extend_from_slice(&body.0);
        whole.extend_from_slice(&stored.0.to_le_bytes());
        whole.extend_from_slice(bytes);
        let checksum = crc32c::crc32c_append(self.seed, &whole[8..]);
        whole[4..8].copy_from_slice(&checksum.to_le_bytes());
        let file = self.disk.open(&self.passing(body), Mode::Create)?;
        file.write_at(&whole, 0)?;
        let info = BodyInfo { body, owner: *owner, stored, length: bytes.len() as u64 };
        Ok(Passing { file, info })
    }

    /// The directory is synced by the caller, and then it may be [known](Self::learn).
    pub(crate) fn finish(&self, passing: &Passing) -> io::Result<()> {
        passing.file.sync()?;
        let body = passing.info.body;
        self.disk.rename(&self.passing(body), &self.dir.join(name(body)))
    }

    /// Room that half a body takes is missing elsewhere.
    pub(crate) fn discard(&self, body: BodyId) {
        let _ = self.disk.remove(&self.passing(body));
    }

    /// Whether it was there.
    pub(crate) fn remove(&self, body: BodyId) -> io::Result<bool> {
        match self.disk.remove(&self.dir.join(name(body))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
            Ok(()) => Ok(true),
        }
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.disk.sync_dir(&self.dir)
    }

    pub(crate) fn learn(&self, info: BodyInfo) {
        self.known.lock().insert(info.body, Some(info));
    }

    pub(crate) fn forget(&self, body: BodyId) {
        self.known.lock().remove(&body);
    }

    pub(crate) fn get(&self, body: BodyId) -> Result<Option<Bytes>, StoreError> {
        let Some(file) = self.open_body(body)? else { return Ok(None) };
        let bytes = Bytes::from(read_all(&*file, u64::MAX).map_err(|error| self.failed(&error))?);
        match parse(&bytes, body, self.seed) {
            Some(_) => Ok(Some(bytes.slice(HEADER..))),
            None => Err(StoreError::Corrupt {
                store: self.store.clone(),
                place: place_of(body),
                reason: format!(
                    "the checksum does not match; look closer with `hapax ledger check {}` [HX0024]",
                    self.dir.parent().unwrap_or(&self.dir).display()
                ),
            }),
        }
    }

    fn open_body(&self, body: BodyId) -> Result<Option<Arc<dyn File>>, StoreError> {
        match self.disk.open(&self.dir.join(name(body)), Mode::Read) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// What a body's header says, without reading the body.
    fn peek(&self, body: BodyId) -> Result<Option<BodyInfo>, StoreError> {
        let Some(file) = self.open_body(body)? else { return Ok(None) };
        let mut head = vec![0; HEADER];
        let read = file.read_at(&mut head, 0).map_err(|error| self.failed(&error))?;
        let length = file.length().map_err(|error| self.failed(&error))?;
        head.truncate(read);
        Ok(header(&head, body, length))
    }

    /// From memory alone.
    pub(crate) fn list(&self, after: Option<&Cursor>, limit: usize) -> Result<Listed, StoreError> {
        let after = match after {
            None => Bound::Unbounded,
            Some(cursor) => {
                Bound::Excluded(BodyId(cursor.0.as_ref().try_into().map_err(|_| StoreError::Unsupported {
                    store: self.store.clone(),
                    reason: "this cursor is not one of its own".into(),
                })?))
            }
        };
        let known = self.known.lock();
        let mut rest = known.range((after, Bound::Unbounded)).map(|(body, info)| (*body, *info));
        let items: Vec<_> = rest.by_ref().take(limit.max(1)).collect();
        let last = items.last().map(|(body, _)| Cursor(Bytes::copy_from_slice(&body.0)));
        Ok(Listed { items, next: last.filter(|_| rest.next().is_some()) })
    }

    /// Reads what memory does not know of a page.
    pub(crate) fn complete(&self, mut listed: Listed) -> Result<Page<BodyInfo>, StoreError> {
        for (body, info) in listed.items.iter_mut().filter(|(_, info)| info.is_none()) {
            // It may go while we look; one that is damaged is found by whoever reads it, and by a check.
            let Some(found) = self.peek(*body)? else { continue };
            *info = Some(found);
            if let Some(known) = self.known.lock().get_mut(body) {
                known.get_or_insert(found);
            }
        }
        Ok(listed.page())
    }

    fn passing(&self, body: BodyId) -> PathBuf {
        self.dir.join(format!("{}.tmp", name(body)))
    }

    pub(crate) fn failed(&self, error: &io::Error) -> StoreError {
        let store = self.store.clone();
        if is_full(error) {
            StoreError::Full { store, reason: format!("a body does not fit on the disk: {error} [HX0026]") }
        } else {
            StoreError::Unavailable { store, reason: format!("its bodies cannot be used: {error}") }
        }
    }
}

pub(crate) fn parse(bytes: &[u8], body: BodyId, seed: u32) -> Option<BodyInfo> {
    let info = header(bytes, body, bytes.len() as u64)?;
    (u32_at(bytes, 4)? == crc32c::crc32c_append(seed, &bytes[8..])).then_some(info)
}

/// `bytes` begins with the header of a body in a file of so many bytes.
fn header(bytes: &[u8], body: BodyId, length: u64) -> Option<BodyInfo> {
    let fits = bytes.starts_with(MAGIC) && bytes.len() >= HEADER && bytes[40..72] == body.0;
    fits.then_some(())?;
    Some(BodyInfo {
        body,
        owner: Id(*bytes[8..].first_chunk()?),
        stored: Stamp(u64_at(bytes, 72)?),
        length: length.saturating_sub(HEADER as u64),
    })
}

fn name(body: BodyId) -> String {
    Id(body.0).to_string()
}

/// Where it lies, from the ledger's directory.
pub(crate) fn place_of(body: BodyId) -> String {
    format!("{DIR}/{}", name(body))
}

pub(crate) fn parse_name(name: &str) -> Option<BodyId> {
    Id::parse(name).map(|id| BodyId(id.0))
}
