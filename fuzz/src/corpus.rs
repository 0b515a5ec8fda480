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

/// Operations as every format had them, the oldest first.
pub(crate) fn golden_operations() -> Vec<Vec<u8>> {
    let first = golden("v1").into_iter();
    first
        .chain(golden("kinds").into_iter().filter(|(name, _)| name.starts_with("operation")))
        .map(|(_, bytes)| bytes)
        .collect()
}

/// Records of every kind, by name.
pub(crate) fn golden_kinds() -> Vec<(String, Vec<u8>)> {
    golden("kinds")
}

fn golden(folder: &str) -> Vec<(String, Vec<u8>)> {
    let mut paths = paths(&here().join("../crates/hapax-store/tests/golden").join(folder));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "bin"));
    let name = |path: &Path| path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    paths.iter().filter_map(|path| Some((name(path), fs::read(path).ok()?))).collect()
}

fn files(directory: &Path) -> Vec<Vec<u8>> {
    paths(directory).iter().filter_map(|path| fs::read(path).ok()).collect()
}

fn paths(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Writes down an input that failed.
pub(crate) fn keep(target: &str, input: &[u8]) -> io::Result<PathBuf> {
    let directory = here().join("crashes");
    fs::create_dir_all(&directory)?;
    let path = directory.join(format!("{target}-{:08x}.bin", crc32c::crc32c(input)));
    fs::write(&path, input)?;
    Ok(path)
}
