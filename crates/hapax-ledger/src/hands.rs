//! The file that says how the store's time stands to the machine's own count since its boot: magic (8), boot id (16), milliseconds
//! since the boot u64, the store's time then u64, CRC-32C u32.
//!
//! It serves a start after a kill, in the same boot. So it is not synced: what a crash of the machine makes of it does not matter,
//! since the boot is another one then. Nor does it matter if it cannot be written: then the last stamp is all there is to go by.

use std::path::Path;

use hapax_core::Stamp;

use crate::{
    clock::SinceBoot,
    disk::{Disk, Mode, read_all},
    frame::{u32_at, u64_at},
};

pub(crate) const NAME: &str = "clock";
const MAGIC: &[u8; 8] = b"HAPAXCLK";
const LENGTH: usize = 44;

/// At one moment, both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hands {
    pub(crate) at: SinceBoot,
    pub(crate) stamp: Stamp,
}

impl Hands {
    /// `None`: there is no such file, or none that can be believed.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Option<Self> {
        let file = disk.open(&dir.join(NAME), Mode::Read).ok()?;
        let bytes = read_all(&*file, 4096).ok()?;
        let whole = bytes.len() == LENGTH && bytes.starts_with(MAGIC);
        if !whole || u32_at(&bytes, 40) != Some(crc32c::crc32c(bytes.get(..40)?)) {
            return None;
        }
        let boot = *bytes.get(8..24)?.first_chunk()?;
        Some(Self { at: SinceBoot { boot, ms: u64_at(&bytes, 24)? }, stamp: Stamp(u64_at(&bytes, 32)?) })
    }

    pub(crate) fn write(self, disk: &dyn Disk, dir: &Path) {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.at.boot);
        bytes.extend_from_slice(&self.at.ms.to_le_bytes());
        bytes.extend_from_slice(&self.stamp.0.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        let passing = dir.join(format!("{NAME}.tmp"));
        let written = disk
            .open(&passing, Mode::Create)
            .and_then(|file| file.write_at(&bytes, 0))
            .and_then(|()| disk.rename(&passing, &dir.join(NAME)));
        if written.is_err() {
            // An older one would say less than was told since.
            let _at_the_next_start = (disk.remove(&passing), disk.remove(&dir.join(NAME)));
        }
    }
}
