//! The files of one chain: `audit.log`, which grows, and `audit-ROW.log`, which were closed; ROW is the first of each.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use super::row::{Hash, Row, read_line};

const ACTIVE: &str = "audit.log";
/// The next file, until the one before it is closed.
const NEXT: &str = "audit.log.new";

pub(super) fn active(dir: &Path) -> PathBuf {
    dir.join(ACTIVE)
}

pub(super) fn next(dir: &Path) -> PathBuf {
    dir.join(NEXT)
}

pub(super) fn closed_at(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("audit-{first:012}.log"))
}

/// All closed files, the oldest first.
pub(super) fn closed(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let row = name.strip_prefix("audit-").and_then(|rest| rest.strip_suffix(".log"));
        if let Some(first) = row.and_then(|row| row.parse::<u64>().ok()) {
            found.push((first, path));
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// For its owner only, and empty; one that an unclean end left behind goes.
pub(super) fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// As much of a file's end as rows are read from at most.
const TAIL_BYTES: u64 = 512 * 1024;

/// The newest rows of a closed file, oldest first, each with its hash. They are only looked at here; `verify` proves them.
pub(super) fn last_rows(path: &Path, most: usize) -> io::Result<Vec<(Row, Hash)>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    if from > 0 && !lines.is_empty() {
        // The first is only the end of one.
        lines.remove(0);
    }
    let skipped = lines.len().saturating_sub(most);
    Ok(lines[skipped..].iter().filter_map(|line| read_line(line).ok()).collect())
}
