use std::path::PathBuf;

/// A directory on the disk that is measured: below `HAPAX_BENCH_DIR`, or below `target`.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let base = std::env::var_os("HAPAX_BENCH_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    base.join(format!("bench-{name}-{}", std::process::id()))
}
