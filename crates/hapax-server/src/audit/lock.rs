//! One writer for one chain: two would each go on from a row that the other does not know.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// A file of its own, since the log itself is closed and goes on in another.
const NAME: &str = "audit.lock";
/// So long, as at a ledger, a process waits for the one before it, which is about to end.
const PATIENCE: Duration = Duration::from_secs(2);
const BETWEEN: Duration = Duration::from_millis(20);

/// Held for as long as the file is open; `None`: somebody else holds it.
#[allow(clippy::disallowed_methods, reason = "how long to wait for another process is a matter of real time")]
pub(super) fn take(dir: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.join(NAME))?;
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if since.elapsed() < PATIENCE => thread::sleep(BETWEEN),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
