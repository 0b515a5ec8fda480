//! The admin socket in the data directory, through which commands reach the process that holds the ledger.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::AsRawFd as _,
        unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};

use crate::failure::Failure;

/// The socket lies in a directory that only its owner may enter: so nobody comes in between its making and a change of its
/// permissions.
const PRIVATE: &str = "admin";

/// The name of a socket has so many bytes at most, on the systems that we know.
const MOST_NAME: usize = 100;
const NAME: &str = "socket";

fn path_in(directory: &Path) -> PathBuf {
    directory.join(PRIVATE).join(NAME)
}

/// A socket by a name that is short enough, for as long as this is there.
pub(crate) struct Way {
    path: PathBuf,
    _directory: Option<File>,
}

impl Way {
    /// To the socket in this directory. Where its name is too long, it goes by way of the opened directory, which has a short one.
    pub(crate) fn to(directory: &Path) -> io::Result<Self> {
        let path = path_in(directory);
        if path.as_os_str().len() <= MOST_NAME {
            return Ok(Self { path, _directory: None });
        }
        if !cfg!(target_os = "linux") {
            let most = MOST_NAME - PRIVATE.len() - NAME.len() - 2;
            let why = format!("its name is too long for a socket in it; it may have {most} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, why));
        }
        let opened = File::open(directory.join(PRIVATE))?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd())).join(NAME);
        Ok(Self { path, _directory: Some(opened) })
    }

    /// As a client takes it.
    pub(crate) fn address(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    /// Whether anybody listens there.
    pub(crate) async fn is_open(&self) -> bool {
        UnixStream::connect(&self.path).await.is_ok()
    }
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
    let way = Way::to(directory).map_err(|error| Failure::Data { path: directory.to_owned(), error })?;
    UnixListener::bind(&way.path).map_err(failed)
}

/// The store of the process that listens in this directory, if it says so.
pub(crate) fn store_in(directory: &Path) -> Option<String> {
    fs::read_to_string(store_path_in(directory)).ok().filter(|store| !store.is_empty())
}

pub(crate) fn remove(directory: &Path) {
    let _not_there = fs::remove_file(path_in(directory));
    let _not_there = fs::remove_file(store_path_in(directory));
}
