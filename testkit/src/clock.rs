use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicI64, Ordering},
};

/// The time of a server, moved at will: libfaketime stands between it and the kernel.
#[derive(Debug)]
pub struct FakeClock {
    file: PathBuf,
    library: PathBuf,
    offset_ms: AtomicI64,
}

impl FakeClock {
    pub(crate) fn new(dir: &Path) -> Self {
        let clock = Self { file: dir.join("clock"), library: library(), offset_ms: AtomicI64::new(0) };
        clock.write(0);
        clock
    }

    pub(crate) fn envs(&self) -> Vec<(String, String)> {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            // Time-outs and pauses go on as ever.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// The server notices within a second or so.
    pub fn jump(&self, by_ms: i64) {
        let offset = self.offset_ms.fetch_add(by_ms, Ordering::SeqCst) + by_ms;
        self.write(offset);
    }

    fn write(&self, offset_ms: i64) {
        let sign = if offset_ms < 0 { '-' } else { '+' };
        let whole = offset_ms.unsigned_abs();
        let fresh = self.file.with_extension("new");
        fs::write(&fresh, format!("{sign}{}.{:03}s\n", whole / 1_000, whole % 1_000)).unwrap();
        fs::rename(&fresh, &self.file).unwrap();
    }
}

pub(crate) fn library() -> PathBuf {
    fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketimeMT.so.1")))
        .find(|file| file.is_file())
        .expect("libfaketime is not installed; `apt-get install faketime`, or `cargo xtask test`")
}
