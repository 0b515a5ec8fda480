//! Bodies that are too large for a record: a file each, whole under its name or not there at all.
//!
//! ```text
//!  0  magic "HXB1", checksum u32 (CRC-32C of all that follows, seeded with the store's id)
//!  8  owner 32, body id 32, stored u64, then the bytes
//! ```

use std::{io, path::PathBuf, sync::Arc};

use bytes::Bytes;
use hapax_core::{Id, Stamp};
use hapax_store::{BodyId, BodyInfo, Cursor, Page, StoreError};

use crate::{
    disk::{Disk, Mode, read_all, write_whole},
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
}

impl Bodies {
    /// Removes what a put that never ended has left.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: PathBuf, store: &[u8; 16], name: String) -> io::Result<Self> {
        disk.create_dir(&dir)?;
        for name in disk.list(&dir)? {
            if name.ends_with(".tmp") {
                disk.remove(&dir.join(name))?;
            }
        }
        // A body that only the page cache held is found by its name all the same, and its owner may trust it.
        disk.sync_dir(&dir)?;
        Ok(Self { disk, dir, seed: crc32c::crc32c(store), store: name })
    }

    pub(crate) fn put(&self, owner: &Id, body: BodyId, bytes: &[u8], stored: Stamp) -> Result<(), StoreError> {
        let mut file = Vec::with_capacity(HEADER + bytes.len());
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&[0; 4]);
        file.extend_from_slice(&owner.0);
        file.extend_from_slice(&body.0);
        file.extend_from_slice(&stored.0.to_le_bytes());
        file.extend_from_slice(bytes);
        let checksum = crc32c::crc32c_append(self.seed, &file[8..]);
        file[4..8].copy_from_slice(&checksum.to_le_bytes());
        write_whole(&*self.disk, &self.dir, &name(body), &file)
            .and_then(|()| self.disk.sync_dir(&self.dir))
            .map_err(|error| self.failed(&error))
    }

    pub(crate) fn get(&self, body: BodyId) -> Result<Option<Bytes>, StoreError> {
        Ok(self.read(body)?.map(|(_, bytes)| bytes))
    }

    fn read(&self, body: BodyId) -> Result<Option<(BodyInfo, Bytes)>, StoreError> {
        let file = match self.disk.open(&self.dir.join(name(body)), Mode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(&error)),
        };
        let bytes = Bytes::from(read_all(&*file, u64::MAX).map_err(|error| self.failed(&error))?);
        match parse(&bytes, body, self.seed) {
            Some(info) => Ok(Some((info, bytes.slice(HEADER..)))),
            None => Err(StoreError::Corrupt {
                store: self.store.clone(),
                place: format!("{DIR}/{}", name(body)),
                reason: format!(
                    "the checksum does not match; look closer with `hapax ledger check {}` [HX0024]",
                    self.dir.parent().unwrap_or(&self.dir).display()
                ),
            }),
        }
    }

    /// What a body's header says, without reading the body.
    fn peek(&self, body: BodyId) -> Result<Option<BodyInfo>, StoreError> {
        let file = match self.disk.open(&self.dir.join(name(body)), Mode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(&error)),
        };
        let mut head = vec![0; HEADER];
        let read = file.read_at(&mut head, 0).map_err(|error| self.failed(&error))?;
        let length = file.length().map_err(|error| self.failed(&error))?;
        head.truncate(read);
        Ok(header(&head, body, length))
    }

    pub(crate) fn remove(&self, body: BodyId) -> Result<(), StoreError> {
        match self.disk.remove(&self.dir.join(name(body))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.failed(&error)),
            Ok(()) => self.disk.sync_dir(&self.dir).map_err(|error| self.failed(&error)),
        }
    }

    pub(crate) fn list(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<BodyInfo>, StoreError> {
        let after = match after {
            None => None,
            Some(cursor) => Some(BodyId(cursor.0.as_ref().try_into().map_err(|_| StoreError::Unsupported {
                store: self.store.clone(),
                reason: "this cursor is not one of its own".into(),
            })?)),
        };
        let mut all: Vec<BodyId> = self
            .disk
            .list(&self.dir)
            .map_err(|error| self.failed(&error))?
            .iter()
            .filter_map(|name| parse_name(name))
            .collect();
        all.sort_unstable();
        let limit = limit.max(1);
        let mut items = Vec::new();
        let mut next = None;
        for body in all.into_iter().filter(|body| after.is_none_or(|after| *body > after)) {
            if items.len() == limit {
                next = items.last().map(|last: &BodyInfo| Cursor(Bytes::copy_from_slice(&last.body.0)));
                break;
            }
            // It may go while we look; one that is damaged is found by whoever reads it, and by a check.
            if let Some(info) = self.peek(body)? {
                items.push(info);
            }
        }
        Ok(Page { items, next })
    }

    fn failed(&self, error: &io::Error) -> StoreError {
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

pub(crate) fn parse_name(name: &str) -> Option<BodyId> {
    Id::parse(name).map(|id| BodyId(id.0))
}
