//! Saves what is whole into a new ledger. The damaged one is not touched.

use std::{path::Path, sync::Arc};

use foldhash::fast::RandomState;
use hapax_core::{Id, Version};
use hashbrown::HashMap;

use crate::{
    append::{Appender, Failed, Start},
    bodies,
    check::{Report, store_of, survey},
    disk::{Disk, Mode, RealDisk, read_all, write_whole},
    entry,
    error::OpenError,
    lock,
    options::Options,
    recover,
};

/// How far versions move on, past those that the damage may have swallowed: none of them may come twice.
const VERSIONS_SKIPPED: u64 = 1_000_000;

/// Copies the newest whole version of every record, and all whole bodies, of the ledger in `path` to a new directory.
/// The report names what was damaged, and so may be missing or older than it was.
pub fn repair(path: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Report, OpenError> {
    repair_on(Arc::new(RealDisk), path.as_ref(), &Options::new(to.as_ref()))
}

#[doc(hidden)]
pub fn repair_on(disk: Arc<dyn Disk>, from: &Path, to: &Options) -> Result<Report, OpenError> {
    let _lock = lock::take(&*disk, from, std::time::Duration::ZERO)?;
    let store = store_of(&*disk, from)?;
    let mut newest: HashMap<Id, (Version, Vec<u8>), RandomState> = HashMap::default();
    let mut highest = 0;
    let mut report = survey(&*disk, from, &mut |bytes, entry| {
        highest = highest.max(entry.version.0);
        let known = newest.get(&entry.id).map_or(Version::NEVER, |known| known.0);
        if entry.version >= known {
            newest.insert(entry.id, (entry.version, bytes.to_vec()));
        }
    })?;
    report.ids = newest.len() as u64;

    let dir = to.path.as_path();
    let io = |doing| OpenError::io(dir, doing);
    to.disk.create_dir(dir).map_err(io("create it"))?;
    if !to.disk.list(dir).map_err(io("list its files"))?.is_empty() {
        return Err(OpenError::NotEmpty { path: dir.to_owned() });
    }
    let _target = lock::take(&*to.disk, dir, std::time::Duration::ZERO)?;
    let opened = recover::open(to)?;
    let mut tail = opened.tail;
    let stamp = report.last_stamp;
    tail.last_stamp = stamp;
    tail.next_version = highest + VERSIONS_SKIPPED;
    let mut appender = Appender::new(opened.log.clone(), tail);
    let mut entries: Vec<_> = newest.into_values().collect();
    entries.sort_unstable_by_key(|(version, _)| *version);
    let mut started = false;
    for (_, bytes) in &entries {
        if started && !appender.fits(bytes.len()) {
            commit(&mut appender, stamp).map_err(io("write to it"))?;
            started = false;
        }
        if !started {
            start(&mut appender, bytes.len()).map_err(io("write to it"))?;
            started = true;
        }
        appender.add(false, |buffer| entry::put_carried(buffer, bytes));
    }
    if !started {
        start(&mut appender, 0).map_err(io("write to it"))?;
    }
    commit(&mut appender, stamp).map_err(io("write to it"))?;
    copy_bodies(&*disk, from, &store, to, &opened.log.store)?;
    Ok(report)
}

fn start(appender: &mut Appender, first: usize) -> std::io::Result<()> {
    match appender.start(first)? {
        Start::Ready => Ok(()),
        Start::NoRoom => Err(std::io::ErrorKind::StorageFull.into()),
    }
}

fn commit(appender: &mut Appender, stamp: u64) -> std::io::Result<()> {
    appender.commit(stamp).map_err(|failed| match failed {
        Failed::Write(error) | Failed::Sync(error) => error,
    })
}

fn copy_bodies(disk: &dyn Disk, from: &Path, store: &[u8; 16], to: &Options, new: &[u8; 16]) -> Result<(), OpenError> {
    let (inside, outside) = (from.join(bodies::DIR), to.path.join(bodies::DIR));
    let io = |doing| OpenError::io(&outside, doing);
    let names = match disk.list(&inside) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OpenError::io(inside, "list its files")(error)),
    };
    to.disk.create_dir(&outside).map_err(io("create it"))?;
    for name in names {
        let Some(body) = bodies::parse_name(&name) else { continue };
        let Ok(mut bytes) = disk.open(&inside.join(&name), Mode::Read).and_then(|file| read_all(&*file, u64::MAX))
        else {
            continue;
        };
        if bodies::parse(&bytes, body, crc32c::crc32c(store)).is_some() {
            let checksum = crc32c::crc32c_append(crc32c::crc32c(new), &bytes[8..]);
            bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
            write_whole(&*to.disk, &outside, &name, &bytes).map_err(io("write a body"))?;
        }
    }
    to.disk.sync_dir(&outside).map_err(io("sync it"))
}
