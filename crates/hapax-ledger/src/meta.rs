//! The file that makes a directory a ledger: magic (8), format u32, store id (16), CRC-32C u32.

use std::{io, path::Path};

use crate::{
    disk::{Disk, Mode, read_all, write_whole},
    error::OpenError,
    frame::u32_at,
};

pub(crate) const NAME: &str = "ledger";
pub(crate) const FORMAT: u32 = 1;
const MAGIC: &[u8; 8] = b"HAPAXLGR";
const LENGTH: usize = 32;

/// `None`: there is no such file.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<[u8; 16]>, OpenError> {
    let path = dir.join(NAME);
    let file = match disk.open(&path, Mode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io(path, "open it")(error)),
    };
    let bytes = read_all(&*file, 4096).map_err(OpenError::io(path.clone(), "read it"))?;
    let not = |reason: &str| OpenError::NotALedger { path: path.clone(), reason: reason.into() };
    let format = u32_at(&bytes, 8)
        .filter(|_| bytes.starts_with(MAGIC))
        .ok_or_else(|| not("its `ledger` file is another one's"))?;
    if format > FORMAT {
        return Err(OpenError::Newer { path: dir.to_owned(), found: format, known: FORMAT });
    }
    let whole = bytes.len() == LENGTH && u32_at(&bytes, 28) == Some(crc32c::crc32c(&bytes[..28]));
    let store = bytes.get(12..28).and_then(|store| store.first_chunk()).filter(|_| whole);
    store.copied().map(Some).ok_or_else(|| not("its `ledger` file is damaged"))
}

pub(crate) fn write(disk: &dyn Disk, dir: &Path, store: &[u8; 16]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(store);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    write_whole(disk, dir, NAME, &bytes)?;
    disk.sync_dir(dir)
}
