use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, FileExt, OpenOptionsExt as _},
    path::Path,
    sync::Arc,
};

use super::{BLOCK, Blocks, Disk, File, Held, Mode};

/// The file system of this machine. What is made there is its owner's alone: it holds what users were answered. What is there
/// already keeps the rights that it was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

const OWNERS_DIR: u32 = 0o700;
const OWNERS_FILE: u32 = 0o600;

#[derive(Debug)]
struct RealFile(fs::File);

#[derive(Debug)]
struct RealLock(#[allow(dead_code, reason = "the lock lives as long as the descriptor")] fs::File);

impl Held for RealLock {}

impl Disk for RealDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let missing = dir.ancestors().take_while(|ancestor| !ancestor.exists()).count();
        fs::DirBuilder::new().recursive(true).mode(OWNERS_DIR).create(dir)?;
        // A new directory is only there for good once its parent says so. The nearest one always: an earlier start may
        // have ended before it came to that.
        for parent in dir.ancestors().skip(1).take(missing.max(1)) {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            match self.sync_dir(parent) {
                // Where others rule, a directory may be entered without being read.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).mode(OWNERS_FILE);
        match mode {
            Mode::Read => {}
            Mode::Write => {
                options.write(true);
            }
            Mode::Create => {
                options.write(true).create(true).truncate(true);
            }
            Mode::Prepare => {
                options.write(true).create(true).truncate(true);
                if let Some(file) = past_the_cache(&options, path) {
                    return Ok(Arc::new(RealFile(file)));
                }
            }
            Mode::Direct => {
                direct(options.write(true))?;
            }
        }
        Ok(Arc::new(RealFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Held>> {
        let mut options = fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(OWNERS_FILE).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(RealLock(file))),
            Err(fs::TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// A file that is written without a copy in memory, where the file system can do that: making and writing back a copy of
/// zeros that nobody reads takes ten times the processor time. Whether it can is only certain once something was written.
fn past_the_cache(options: &fs::OpenOptions, path: &Path) -> Option<fs::File> {
    let file = direct(&mut options.clone()).ok()?.open(path).ok()?;
    file.write_all_at(Blocks::new(BLOCK as usize).first(BLOCK as usize), 0).ok()?;
    Some(file)
}

#[cfg(target_os = "linux")]
fn direct(options: &mut fs::OpenOptions) -> io::Result<&mut fs::OpenOptions> {
    Ok(options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32))
}

#[cfg(not(target_os = "linux"))]
fn direct(_: &mut fs::OpenOptions) -> io::Result<&mut fs::OpenOptions> {
    Err(io::ErrorKind::Unsupported.into())
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    #[cfg(target_os = "linux")]
    fn read_at_once(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        let all = buffer.len();
        match preadv2(&self.0, &mut [io::IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
            Ok(read) if read == all => Ok(Some(read)),
            // A part of it is in memory, or the file ends: whoever waits finds out.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            // Not every file system can tell.
            Err(_) => self.read_at(buffer, offset).map(Some),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
