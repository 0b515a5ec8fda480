//! `hapax export` and `hapax import`: operations with their answers, from one store to another or to a shelf.

mod export;
mod import;
mod line;
mod progress;

use std::path::{Path, PathBuf};

use hapax::{Store, StoreError};
use sha2::{Digest, Sha256};

use crate::{
    failure::Failure,
    serve::{args::ServeArgs, settings::Settings},
};

pub(crate) use export::{Export, run as export};
pub(crate) use import::{Import, run as import};

/// The store that was named, or else the one that `serve` would have here.
fn named(store: &Option<String>, data: &Option<String>) -> Result<(String, PathBuf), Failure> {
    let config = std::env::var_os("HAPAX_CONFIG").map(PathBuf::from);
    let args = ServeArgs { config, store: store.clone(), data: data.clone(), ..ServeArgs::default() };
    let found = Settings::read(&args)?.whereabouts();
    Ok((found.store.value, found.data.value.into()))
}

/// The directory of a store that is a ledger.
fn ledger_in(store: &str) -> Option<&Path> {
    store.strip_prefix("file:").map(|path| Path::new(path.strip_prefix("//").unwrap_or(path)))
}

fn failed(store: &dyn Store) -> impl Fn(StoreError) -> Failure {
    let url = store.name();
    move |error| Failure::Store { url: url.clone(), why: error.to_string() }
}

fn file_failed(path: &std::path::Path) -> impl Fn(std::io::Error) -> Failure {
    let path = path.to_owned();
    move |error| Failure::Transfer { path: path.clone(), why: error.to_string() }
}

/// Names the secret of a data directory without giving it away. Under another secret the same request has another
/// fingerprint, and every retry would be taken for a different request.
fn secret_of(directory: Option<&PathBuf>) -> Result<Option<String>, Failure> {
    let Some(directory) = directory else { return Ok(None) };
    // Made if it is not there: then it is this directory's from now on.
    crate::gateway::kept_secret(Some(directory))?;
    let path = directory.join("secret");
    let text = std::fs::read_to_string(&path).map_err(file_failed(&path))?;
    let mut hash = Sha256::new();
    hash.update(b"hapax.export.secret.v1\0");
    hash.update(text.trim());
    Ok(Some(data_encoding::HEXLOWER.encode(&hash.finalize()[..8])))
}
