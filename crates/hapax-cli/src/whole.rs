//! A file that is there whole or not at all.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Written beside, under a name that nobody else has, and put in its place when it is whole: half of it is nothing. It holds
/// what users said, so it is its owner's alone, and it takes no other file's place.
#[derive(Debug)]
pub(crate) struct Whole {
    path: PathBuf,
    beside: PathBuf,
}

impl Whole {
    /// Refused where there is one already.
    pub(crate) fn begin(path: &Path) -> io::Result<(Self, File)> {
        if path.exists() {
            return Err(there());
        }
        let mut random = [0; 6];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = path.with_file_name(format!(".{name}.{}.part", data_encoding::HEXLOWER.encode(&random)));
        let file = File::options().write(true).create_new(true).mode(0o600).open(&beside)?;
        Ok((Self { path: path.to_owned(), beside }, file))
    }

    /// All is written: `file` is the one that [`Whole::begin`] gave.
    pub(crate) fn put(self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        match fs::hard_link(&self.beside, &self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(there()),
            // Not every file system has links.
            Err(_) => fs::rename(&self.beside, &self.path),
            Ok(()) => Ok(()),
        }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        let _put_or_half = fs::remove_file(&self.beside);
    }
}

fn there() -> io::Error {
    io::Error::other("it is there already, and is not overwritten; choose another name")
}
