//! Keys that a client numbers itself, and never twice: `client:sequence:nonce` (AD-40).
//!
//! The sequence lives in a small file. Before a number is handed out, a block that holds it is reserved durably: the
//! new ceiling goes to a second file, which is synced and renamed over the first, and the directory is synced. After a
//! crash the generator goes on above the ceiling; the rest of the block is lost, which costs nothing. A file that
//! cannot be read is an error, never a new beginning.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use hapax_core::{
    body_digest,
    identity::{Key, recipes::ad40::ClientKey},
};
use parking_lot::Mutex;

use crate::ambient::{Entropy, EntropyError, SystemEntropy};

/// How many numbers one sync reserves.
const BLOCK: u64 = 1_000;
/// A client id this long leaves room for the other parts within 255 characters.
const MOST_CLIENT: usize = 200;
const FIRST_LINE: &str = "hapax-keys 1";

/// Why there is no key. Each message names the file and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyGeneratorError {
    #[error("the client id {rule}; give every client a stable id of 1–{MOST_CLIENT} visible ASCII characters [HX0031]")]
    Client { rule: &'static str },
    #[error("{} belongs to client `{stored}`, not to `{given}`; give each client id a file of its own [HX0031]", path.display())]
    OtherClient { path: PathBuf, stored: String, given: String },
    #[error("another process makes keys from {}; give each process a file and a client id of its own [HX0031]", path.display())]
    InUse { path: PathBuf },
    #[error(
        "{} is damaged ({what}), and a new beginning could repeat keys; restore it from a copy, or remove it and its \
         `.lock` and take a new client id [HX0031]", path.display()
    )]
    Damaged { path: PathBuf, what: &'static str },
    #[error(
        "{} is gone although keys were made from it; restore it from a copy, or remove its `.lock` too and take a new \
         client id [HX0031]", path.display()
    )]
    Gone { path: PathBuf },
    #[error("{} was written by a newer Hapax; use that one [HX0031]", path.display())]
    Newer { path: PathBuf },
    #[error("cannot {action} {}: {source}; mend that and open the generator again [HX0031]", path.display())]
    Io { path: PathBuf, action: &'static str, source: io::Error },
    #[error("an earlier write of {} failed, so nothing is promised any more; open the generator again [HX0031]", path.display())]
    Poisoned { path: PathBuf },
    #[error("client `{client}` has used up its numbers; take a new client id [HX0031]")]
    Exhausted { client: String },
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

/// Makes keys of one client. The sequence never repeats, whatever process dies when; the nonce is new per start.
#[derive(Debug)]
pub struct KeyGenerator {
    path: PathBuf,
    client: String,
    nonce: [u8; 8],
    numbers: Mutex<Numbers>,
    /// Held as long as this lives; the system lets go of it when the process dies.
    lock: File,
}

#[derive(Debug)]
struct Numbers {
    /// The last number handed out.
    last: u64,
    /// The last number that may be handed out.
    ceiling: u64,
    poisoned: bool,
}

impl KeyGenerator {
    /// Opens the file, or starts one. The client id has to be the one that the file was started with.
    pub fn persistent(path: impl AsRef<Path>, client_id: &str) -> Result<Self, KeyGeneratorError> {
        Self::persistent_with(path, client_id, &SystemEntropy::default())
    }

    /// The same with randomness from elsewhere.
    pub fn persistent_with(
        path: impl AsRef<Path>,
        client_id: &str,
        entropy: &dyn Entropy,
    ) -> Result<Self, KeyGeneratorError> {
        check_client(client_id)?;
        let path = path.as_ref().to_path_buf();
        let lock = locked(&path)?;
        let ceiling = match stored(&path)? {
            Some((client, _)) if client != client_id => {
                return Err(KeyGeneratorError::OtherClient { path, stored: client, given: client_id.to_owned() });
            }
            Some((_, ceiling)) => ceiling,
            None => 0,
        };
        let mut nonce = [0; 8];
        entropy.fill(&mut nonce)?;
        let numbers = Mutex::new(Numbers { last: ceiling, ceiling, poisoned: false });
        let fresh = Self { path, client: client_id.to_owned(), nonce, numbers, lock };
        if fresh.used_before()? && ceiling == 0 {
            return Err(KeyGeneratorError::Gone { path: fresh.path });
        }
        Ok(fresh)
    }

    /// The next key. Mostly from memory; one in a thousand waits for the disk.
    pub fn next(&self) -> Result<Key, KeyGeneratorError> {
        Ok(self.next_client_key()?.key())
    }

    /// The next key in its parts.
    pub fn next_client_key(&self) -> Result<ClientKey, KeyGeneratorError> {
        let mut numbers = self.numbers.lock();
        if numbers.poisoned {
            return Err(KeyGeneratorError::Poisoned { path: self.path.clone() });
        }
        if numbers.last == numbers.ceiling {
            let exhausted = || KeyGeneratorError::Exhausted { client: self.client.clone() };
            let ceiling = numbers.ceiling.checked_add(BLOCK).ok_or_else(exhausted)?;
            // A sync that failed once may claim success the next time without having done anything.
            numbers.poisoned = true;
            self.reserve(ceiling)?;
            numbers.poisoned = false;
            numbers.ceiling = ceiling;
        }
        numbers.last += 1;
        ClientKey::new(&self.client, numbers.last, self.nonce)
            .map_err(|_| KeyGeneratorError::Client { rule: "is empty" })
    }

    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client
    }

    /// Makes it durable that numbers up to `ceiling` may have been used.
    fn reserve(&self, ceiling: u64) -> Result<(), KeyGeneratorError> {
        let next = beside(&self.path, ".new");
        let wrong = |path: &Path, action| failed(path, action);
        let mut file = File::create(&next).map_err(wrong(&next, "create"))?;
        file.write_all(written(&self.client, ceiling).as_bytes()).map_err(wrong(&next, "write"))?;
        file.sync_all().map_err(wrong(&next, "sync"))?;
        std::fs::rename(&next, &self.path).map_err(wrong(&self.path, "replace"))?;
        sync_directory(&self.path)?;
        if !self.used_before()? {
            let lock = beside(&self.path, ".lock");
            (&self.lock).write_all(b"used\n").map_err(wrong(&lock, "write"))?;
            self.lock.sync_all().map_err(wrong(&lock, "sync"))?;
        }
        Ok(())
    }

    /// Whether keys were ever made from this file: the lock beside it remembers, so that losing the file is noticed.
    fn used_before(&self) -> Result<bool, KeyGeneratorError> {
        let length = (&self.lock).seek(io::SeekFrom::End(0));
        length.map(|length| length > 0).map_err(failed(&beside(&self.path, ".lock"), "read"))
    }
}

fn check_client(client: &str) -> Result<(), KeyGeneratorError> {
    let rule = if client.is_empty() {
        "is empty"
    } else if client.len() > MOST_CLIENT {
        "is too long"
    } else if !client.bytes().all(|byte| byte.is_ascii_graphic()) {
        "holds spaces, control or non-ASCII characters"
    } else {
        return Ok(());
    };
    Err(KeyGeneratorError::Client { rule })
}

/// The lock is a file of its own: the other one is replaced, and a lock on a replaced file guards nothing.
fn locked(path: &Path) -> Result<File, KeyGeneratorError> {
    let beside = beside(path, ".lock");
    let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&beside);
    let lock = lock.map_err(failed(&beside, "open"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(KeyGeneratorError::InUse { path: path.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(failed(&beside, "lock")(source)),
    }
}

/// Client id and ceiling, or `None` where there is no file.
fn stored(path: &Path) -> Result<Option<(String, u64)>, KeyGeneratorError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, "open")(error)),
    };
    let mut bytes = Vec::new();
    file.take(4_096).read_to_end(&mut bytes).map_err(failed(path, "read"))?;
    parsed(&bytes).map(Some).map_err(|what| match what {
        Unreadable::Newer => KeyGeneratorError::Newer { path: path.to_path_buf() },
        Unreadable::Damaged(what) => KeyGeneratorError::Damaged { path: path.to_path_buf(), what },
    })
}

#[derive(Debug, PartialEq)]
enum Unreadable {
    Newer,
    Damaged(&'static str),
}

fn written(client: &str, ceiling: u64) -> String {
    let said = format!("{FIRST_LINE}\nclient {client}\nreserved {ceiling}\n");
    let check = check(&said);
    format!("{said}check {check}\n")
}

fn check(said: &str) -> String {
    body_digest(said.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn parsed(bytes: &[u8]) -> Result<(String, u64), Unreadable> {
    let text = std::str::from_utf8(bytes).map_err(|_| Unreadable::Damaged("it is not text"))?;
    let first = text.lines().next().unwrap_or_default();
    let format = first.strip_prefix("hapax-keys ").and_then(|number| number.parse::<u32>().ok());
    if format.is_some_and(|format| format > 1) {
        return Err(Unreadable::Newer);
    }
    let mut lines = text.lines().skip(1);
    let client = lines.next().and_then(|line| line.strip_prefix("client "));
    let ceiling = lines.next().and_then(|line| line.strip_prefix("reserved ")).and_then(|text| text.parse().ok());
    let (Some(client), Some(ceiling)) = (client, ceiling) else {
        return Err(Unreadable::Damaged("it is no sequence file, or not all of one"));
    };
    // Written again it has to be the same, to the byte: that checks the digest, and every line besides.
    if written(client, ceiling) != text {
        return Err(Unreadable::Damaged("its check does not fit"));
    }
    Ok((client.to_owned(), ceiling))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> KeyGeneratorError + use<> {
    let path = path.to_path_buf();
    move |source| KeyGeneratorError::Io { path, action, source }
}

/// A rename is durable once its directory is.
#[cfg(unix)]
fn sync_directory(path: &Path) -> Result<(), KeyGeneratorError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed(directory, "sync"))
}

/// Elsewhere a directory cannot be opened, and the system keeps the order by itself.
#[cfg(not(unix))]
fn sync_directory(_path: &Path) -> Result<(), KeyGeneratorError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_byte_is_noticed() {
        let good = written("host1.dc1:12345", 3_000);
        // The Python package writes and reads the same file.
        let bytes = "hapax-keys 1\nclient host1.dc1:12345\nreserved 3000\ncheck cc6ea564aa227bdc\n";
        assert_eq!(good, bytes);
        assert_eq!(parsed(good.as_bytes()), Ok(("host1.dc1:12345".to_owned(), 3_000)));
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert!(parsed(&bytes).is_err(), "byte {at}, bit {bit}");
            }
            assert!(parsed(&good.as_bytes()[..at]).is_err(), "cut at {at}");
        }
    }
}
