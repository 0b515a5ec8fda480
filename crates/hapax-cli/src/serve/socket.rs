//! The admin socket in the data directory, through which commands reach the process that holds the ledger.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tokio::net::UnixListener;

use crate::failure::Failure;

/// The socket lies in a directory that only its owner may enter: so nobody comes in between its making and a change of its
/// permissions.
const PRIVATE: &str = "admin";

pub(crate) fn path_in(directory: &Path) -> PathBuf {
    directory.join(PRIVATE).join("socket")
}

/// On which store the process is that listens there, as it may be shown.
fn store_path_in(directory: &Path) -> PathBuf {
    directory.join(PRIVATE).join("store")
}

/// The ledger's lock is held by us, so a socket that is there is left over from an unclean end. Beside it stands the store that
/// whoever connects will act on.
pub(crate) fn bind(directory: &Path, store: &str) -> Result<UnixListener, Failure> {
    let path = path_in(directory);
    let failed = |error: io::Error| Failure::Listen { address: path.display().to_string(), error };
    let private = directory.join(PRIVATE);
    match fs::DirBuilder::new().mode(0o700).create(&private) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    remove(directory);
    fs::write(store_path_in(directory), crate::store::shown(store)).map_err(failed)?;
    UnixListener::bind(&path).map_err(failed)
}

/// The store of the process that listens in this directory, if it says so.
pub(crate) fn store_in(directory: &Path) -> Option<String> {
    fs::read_to_string(store_path_in(directory)).ok().filter(|store| !store.is_empty())
}

pub(crate) fn remove(directory: &Path) {
    let _not_there = fs::remove_file(path_in(directory));
    let _not_there = fs::remove_file(store_path_in(directory));
}
