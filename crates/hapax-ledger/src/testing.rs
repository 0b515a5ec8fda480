//! For tests: random numbers (one seed, printed, one history), and a directory as an earlier build left it.

use std::{path::Path, sync::Arc};

use hapax_core::{Id, Stamp, Version};

use crate::{
    append::{Appender, Start},
    disk::{Disk, RecordingDisk},
    entry,
    options::Options,
    recover,
};

/// Two writes, with an empty segment between theirs: `/l`, as builds before the first release could leave it.
#[must_use]
#[allow(clippy::unwrap_used, reason = "for tests, on a disk in memory")]
pub fn passed_over() -> (RecordingDisk, [Id; 2]) {
    let disk = RecordingDisk::default();
    let options = Options::new("/l").segment_bytes(4096, 4096).disk(Arc::new(disk.clone()));
    let ids = [Id([1; 32]), Id([2; 32])];
    disk.create_dir(Path::new("/l")).unwrap();
    let opened = recover::open(&options).unwrap();
    let mut appender = Appender::new(opened.log.clone(), opened.tail);
    for id in ids {
        if id == ids[1] {
            opened.log.roll().unwrap();
            appender.pass_over().unwrap();
        }
        assert!(matches!(appender.start(entry::REMOVAL_BYTES), Ok(Start::Ready)));
        let version = Version(appender.version());
        appender.add(true, |buffer| entry::put_removal(buffer, &id, version, Stamp(5), Stamp(5), false));
        assert!(appender.commit(5).is_ok());
    }
    (disk, ids)
}

fn given() -> Option<u64> {
    std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.trim().parse().ok())
}

/// xorshift64*; the seed is printed, and taken back from `HAPAX_SEED`.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Without a seed in the environment the one that belongs to `what`: the test command runs the same histories each
    /// time, the soak draws fresh ones.
    #[must_use]
    pub fn from_env(what: &str) -> Self {
        let seed = given().unwrap_or_else(|| u64::from(crc32c::crc32c(what.as_bytes())));
        println!("{what}: HAPAX_SEED={seed}");
        Self::new(seed)
    }

    /// Whether the seed is the test's own. What only luck makes true is asserted for that one alone.
    #[must_use]
    pub fn is_fixed() -> bool {
        given().is_none()
    }

    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { (self.next() >> 11) % end }
    }
}
