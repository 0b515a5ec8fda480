//! Stores by their URL.

use std::{path::PathBuf, sync::Arc};

use hapax::{Ledger, MemoryStore, Store};

use crate::failure::Failure;

/// A store, and the directory that goes with it.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// Where secrets are kept; without one they are forgotten with the process.
    pub(crate) directory: Option<PathBuf>,
    /// The embedded ledger, for its figures.
    pub(crate) ledger: Option<Arc<Ledger>>,
}

pub(crate) const DEFAULT: &str = "file:./hapax-data";

pub(crate) fn open(url: &str) -> Result<Opened, Failure> {
    let failed = |why: String| Failure::Store { url: url.to_owned(), why };
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Opened { store: Arc::new(MemoryStore::default()), directory: None, ledger: None }),
        Some(("file", path)) if !path.trim_start_matches("//").is_empty() => {
            // `file:///var/lib/hapax` and `file:./hapax-data` both name a directory.
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            let ledger = Arc::new(Ledger::open(&path).map_err(|error| failed(error.to_string()))?);
            let store: Arc<dyn Store> = Arc::clone(&ledger) as _;
            Ok(Opened { store, directory: Some(path), ledger: Some(ledger) })
        }
        Some(_) | None => Err(failed("write `file:DIRECTORY` or `memory:` [HX0050]".to_owned())),
    }
}
