//! The secret under which credentials and requests are digested.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use data_encoding::HEXLOWER_PERMISSIVE;
use hapax::identity::Secret;

use crate::failure::Failure;

const NAME: &str = "secret";

/// The secret of a data directory, made on its first use and readable by its owner only. Without a directory one that
/// lives as long as the process.
pub(crate) fn kept_in(directory: Option<&Path>) -> Result<Secret, Failure> {
    let path = directory.unwrap_or_else(|| Path::new("")).join(NAME);
    let failed = |why: String| Failure::Secret { path: path.clone(), why };
    let bytes = match directory {
        None => fresh().map_err(|error| failed(error.to_string()))?,
        Some(directory) => {
            let text = match read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => create(directory, &path),
                read => read,
            };
            let text = text.map_err(|error| failed(error.to_string()))?;
            HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).map_err(|_| {
                failed(
                    "it is damaged; restore it from a backup, since a new one makes strangers of all callers"
                        .to_owned(),
                )
            })?
        }
    };
    Secret::new(&bytes).map_err(|error| failed(error.to_string()))
}

fn read(path: &Path) -> io::Result<String> {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("others may read it (mode {:03o}); set it to 600", mode & 0o777),
        ));
    }
    fs::read_to_string(path)
}

/// Whole or not at all: written beside, then linked into place. If another process was there first, its secret is ours.
fn create(directory: &Path, path: &Path) -> io::Result<String> {
    let text = HEXLOWER_PERMISSIVE.encode(&fresh()?);
    let beside = directory.join(format!("{NAME}.{}", std::process::id()));
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&beside, path);
    fs::remove_file(&beside)?;
    File::open(directory)?.sync_all()?;
    match linked {
        Ok(()) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(error),
    }
}

fn fresh() -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
