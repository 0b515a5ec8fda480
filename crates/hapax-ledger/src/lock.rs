//! One process per directory. The second waits a moment, so that a rolling restart works.

use std::{
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{
    disk::{Disk, Held},
    error::OpenError,
};

pub(crate) const NAME: &str = "lock";
const BETWEEN: Duration = Duration::from_millis(20);

#[allow(clippy::disallowed_methods, reason = "how long to wait for another process is a matter of real time")]
pub(crate) fn take(disk: &dyn Disk, dir: &Path, wait: Duration) -> Result<Box<dyn Held>, OpenError> {
    let since = Instant::now();
    loop {
        match disk.lock(&dir.join(NAME)) {
            Ok(held) => return Ok(held),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if since.elapsed() >= wait {
                    return Err(OpenError::InUse { path: dir.to_owned() });
                }
                thread::sleep(BETWEEN);
            }
            Err(error) => return Err(OpenError::io(dir, "lock it")(error)),
        }
    }
}
