//! Stores by their URL.

use std::{
    fs::{self, File},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use hapax::ledger::OpenError;
use hapax::{Durability, Effect, Engine, Ledger, MemoryStore, Policies, Store, StoreUrlError};

use crate::failure::Failure;

/// A store, and the directory that goes with it.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// Where the secret, and of a daemon the audit log and the socket, are kept; without one they are forgotten with the
    /// process.
    pub(crate) directory: Option<PathBuf>,
    /// The embedded ledger, for its figures.
    pub(crate) ledger: Option<Arc<Ledger>>,
}

/// The directory, and the store in it, of whoever names none.
pub(crate) const DATA: &str = "./hapax-data";
pub(crate) const DEFAULT: &str = "file:./hapax-data";

/// Opens a store. `data` is the directory beside a store that lies elsewhere.
pub(crate) async fn open(url: &str, data: &Path) -> Result<Opened, Failure> {
    is_url(url)?;
    match url.split_once(':') {
        Some(("memory", _)) => Ok(Opened { store: Arc::new(MemoryStore::default()), directory: None, ledger: None }),
        Some(("file", path)) => {
            // `file:///var/lib/hapax` and `file:./hapax-data` both name a directory.
            open_ledger(Path::new(path.strip_prefix("//").unwrap_or(path)))
        }
        Some(_) | None => {
            let store = hapax::open_store(url).await.map_err(|error| not_opened(url, &error))?;
            // The secret and the audit log lie there.
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(data);
            made.map_err(|error| Failure::Data { path: data.to_owned(), error })?;
            Ok(Opened { store, directory: Some(data.to_owned()), ledger: None })
        }
    }
}

/// Whether a URL names a store that there could be, without asking for it.
pub(crate) fn is_url(url: &str) -> Result<(), Failure> {
    let (scheme, rest) = url.split_once(':').unwrap_or(("", ""));
    let why = match scheme {
        "memory" if rest.is_empty() => return Ok(()),
        "file" if !rest.trim_start_matches("//").is_empty() => return Ok(()),
        "redis" | "rediss" | "postgres" | "postgresql" | "nats" => return Ok(()),
        "memory" | "file" => "write `file:DIRECTORY` or `memory:` [HX0050]".to_owned(),
        other => StoreUrlError::Scheme { scheme: other.to_owned() }.to_string(),
    };
    Err(Failure::StoreUrl { url: shown(url), why })
}

/// What is wrong with the URL is for whoever wrote it; the rest may be the server's.
pub(crate) fn not_opened(url: &str, error: &StoreUrlError) -> Failure {
    let (url, why) = (shown(url), error.to_string());
    if error.is_of_the_url() { Failure::StoreUrl { url, why } } else { Failure::SharedStore { url, why } }
}

/// A directory that is to be read: one that is mistyped, or somebody else's, is not made a ledger on the way.
pub(crate) fn is_ledger(path: &Path) -> Result<(), Failure> {
    if hapax::ledger::is_ledger(path) {
        return Ok(());
    }
    let why =
        "there is no ledger; name the directory of one with --data, or its store with --store [HX0135]".to_owned();
    Err(Failure::Store { url: path.display().to_string(), why })
}

/// A directory in which a ledger may begin: there is one, or nothing that is not ours.
pub(crate) fn may_be_ledger(path: &Path) -> Result<(), Failure> {
    let ours = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy();
        let beside = ["secret", "admin", "audit"].iter().any(|begin| name.starts_with(begin));
        beside || hapax::ledger::is_name_of_a_file(&name)
    };
    let entries = fs::read_dir(path).map_err(|error| Failure::Data { path: path.to_owned(), error })?;
    let foreign = entries.flatten().any(|entry| !ours(&entry.file_name()));
    if foreign { is_ledger(path) } else { Ok(()) }
}

/// The embedded ledger in a directory.
pub(crate) fn open_ledger(path: &Path) -> Result<Opened, Failure> {
    let url = format!("file:{}", path.display());
    let ledger = Ledger::open(path).map_err(|error| {
        let why = error.to_string();
        if matches!(error, OpenError::InUse { .. }) { Failure::InUse { url, why } } else { Failure::Store { url, why } }
    })?;
    let ledger = Arc::new(ledger);
    let store: Arc<dyn Store> = Arc::clone(&ledger) as _;
    Ok(Opened { store, directory: Some(path.to_owned()), ledger: Some(ledger) })
}

/// A URL for messages: without user and password, whatever it looks like, and of its parameters only those that say which of
/// several stores in one place it is.
pub(crate) fn shown(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some(split) => split,
        // `file:./hapax-data`, `memory:`; without a colon it may be anything.
        None if url.starts_with("file:") || url == "memory:" => return url.to_owned(),
        None => return "…".to_owned(),
    };
    if scheme == "file" {
        return url.to_owned();
    }
    if !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-')) {
        return "…".to_owned();
    }
    let (before, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    // With a `?` or `#` before the last `@` nobody can tell where the password ends.
    if before.contains(['?', '#']) {
        return format!("{scheme}://…");
    }
    let (place, more) = place.split_at(place.find(['?', '#']).unwrap_or(place.len()));
    // Hosts, ports and a name; with anything else a secret may stand there in disguise.
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:/[],".contains(&byte));
    if !plain(place) {
        return format!("{scheme}://…");
    }
    let which = more.strip_prefix('?').unwrap_or_default().split('&').find(|parameter| {
        parameter.split_once('=').is_some_and(|(name, value)| matches!(name, "prefix" | "schema") && plain(value))
    });
    match which {
        Some(which) => format!("{scheme}://{place}?{which}"),
        None => format!("{scheme}://{place}"),
    }
}

/// All processes on a shared store have to have one secret.
pub(crate) async fn agree(engine: &Engine) -> Result<(), Failure> {
    if engine.store().single_writer() {
        return Ok(());
    }
    engine.agree_on_secret().await.map_err(Failure::Promise)
}

/// Said once more, since it stops most work: what nothing is known about is taken to do harm twice.
pub(crate) fn warn_if_forgetful(store: &dyn Store, policies: &Policies) {
    let allowed = policies.standard().may_be_forgotten(Effect::Unsafe);
    if !allowed && !store.single_writer() && matches!(store.durability(), Durability::BestEffort(_)) {
        errln!(
            "hapax: warning: {} may forget what it acknowledged, so only pure and idempotent work runs there. Set it up as \
             said above, or name the classes that may be forgotten in the policy, such as best_effort = [\"unsafe\"] [HX0134]",
            store.name()
        );
    }
}

impl Opened {
    /// Holds the directory beside a shared store for one process: two would write into one audit log, and the later would
    /// take the socket of the earlier. The ledger holds its own.
    pub(crate) async fn hold(&self) -> Result<Option<File>, Failure> {
        match self.directory.as_deref().filter(|_| !self.store.single_writer()) {
            Some(beside) => hold(beside).await.map(Some),
            None => Ok(None),
        }
    }
}

/// So long, as at a ledger, a process waits for the one before it, which is about to end.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOKS_AGAIN: Duration = Duration::from_millis(50);

async fn hold(data: &Path) -> Result<File, Failure> {
    let failed = |error| Failure::Data { path: data.to_owned(), error };
    let file =
        File::options().create(true).truncate(false).write(true).mode(0o600).open(data.join("lock")).map_err(failed)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < until => tokio::time::sleep(LOOKS_AGAIN).await,
            Err(fs::TryLockError::WouldBlock) => return Err(Failure::DataInUse(data.to_owned())),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A password may hold any character that its owner did not care to escape.
    #[test]
    fn no_url_shows_its_secret() {
        let plain = "redis://127.0.0.1:6379/0";
        assert_eq!(shown(plain), plain);
        assert_eq!(shown("redis://[::1]:6379,other-host:6379/0"), "redis://[::1]:6379,other-host:6379/0");
        assert_eq!(shown("file:./hapax-data"), "file:./hapax-data");
        assert_eq!(shown("postgres://app:hush@db:5432/shop?sslmode=require"), "postgres://db:5432/shop");
        assert_eq!(
            shown("postgres://app:hush@db/shop?sslmode=require&schema=billing"),
            "postgres://db/shop?schema=billing"
        );
        assert_eq!(shown("redis://:hush@db/0?prefix=shop:"), "redis://db/0?prefix=shop:");
        assert_eq!(shown("redis://db/0?prefix=a%40b"), "redis://db/0");
        for url in [
            "redis://:hush@host/0",
            "redis://user:hu/sh@host/0",
            "redis://user:x@hush@host/0",
            "postgres://host/db?password=hush",
            "postgres://host/db?password=x@hush",
            "postgres://u:x?hush@host/db",
            "postgres://u:x#hush@host/db",
            "postgres://host/db#hush",
            "hush",
            "hush:x",
            "user:hush://host",
            "nats://hush@host:4222",
            "postgres://postgres%3Ahush%40127.0.0.1:5432/postgres",
            "postgres://host/db&password=hush",
            "postgres://host,password=hush/db",
        ] {
            assert!(!shown(url).contains("hush"), "{} from {url}", shown(url));
        }
    }
}
