//! Inputs that are kept: those that failed once, and those that this run has just failed on.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The inputs of a target, in the order of their names, so that a seed means the same everywhere.
pub(crate) fn of(target: &str) -> Vec<Vec<u8>> {
    files(&here().join("corpus").join(target))
}

/// The records that format 1 wrote.
pub(crate) fn golden_records() -> Vec<Vec<u8>> {
    files(&here().join("../crates/hapax-store/tests/golden/v1"))
        .into_iter()
        .filter(|bytes| bytes.first() == Some(&1))
        .collect()
}

fn files(directory: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// Writes down an input that failed.
pub(crate) fn keep(target: &str, input: &[u8]) -> io::Result<PathBuf> {
    let directory = here().join("crashes");
    fs::create_dir_all(&directory)?;
    let path = directory.join(format!("{target}-{:08x}.bin", crc32c::crc32c(input)));
    fs::write(&path, input)?;
    Ok(path)
}
