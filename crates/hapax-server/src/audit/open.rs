//! Finds a chain as an end left it, clean or not.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::Read as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use serde_json::json;

use super::{
    files, lock,
    log::{Audit, AuditError, AuditOptions, Inner, Opened, TAIL},
    row::{Action, Hash, Row},
    sign::Signer,
    verify::BadRow,
    walk::Walk,
};

const KEY: &str = "audit.key";

impl Audit {
    /// Opens the log of this directory, or begins one; see [`Audit::open_with`].
    pub fn open(dir: &Path) -> Result<(Self, Opened), AuditError> {
        Self::open_with(dir, AuditOptions::default())
    }

    /// Opens the log of this directory, or begins one. The file that grows is checked from its first row to its last, and
    /// that it follows the one before it; what was closed is proved by `verify`, so a start takes the same time after
    /// years. An unfinished last row is cut off, and a row says so.
    pub fn open_with(dir: &Path, options: AuditOptions) -> Result<(Self, Opened), AuditError> {
        let path = files::active(dir);
        let at = |doing| {
            let path = path.clone();
            move |source| AuditError::Io { path, doing, source }
        };
        // Before anything is looked at: what is found has to be there still when the first row is written.
        let lock = lock::take(dir).map_err(at("lock it"))?;
        let lock = lock.ok_or_else(|| AuditError::InUse { path: path.clone() })?;
        let signer = Signer::open(&dir.join(KEY)).map_err(|source| AuditError::Io {
            path: dir.join(KEY),
            doing: "read or make the signing key",
            source,
        })?;
        let key = HEXLOWER.encode(&signer.public());
        let closed = files::closed(dir).map_err(at("list the files before it"))?;
        finish_turning(dir).map_err(at("take up the file that was about to be it"))?;
        // Rows are added at the end, wherever that is: no place in the file is written twice.
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path).map_err(at("open it"))?;
        let before = Before::of(closed.last()).map_err(at("read the file before it"))?;
        let found = Found::in_file(&mut file, &path, &key, &before)?;
        let cut = found.cut;
        if cut > 0 {
            file.set_len(found.whole).map_err(at("cut off its torn end"))?;
        }
        let (empty, goes_on) = (found.whole == 0, before.last.is_some());
        let inner =
            Inner { file: Some(file), _lock: Some(lock), signer: Some(signer), size: found.whole, ..found.inner };
        let audit = Self::of(inner, Some(dir.to_owned()), options);
        if empty && goes_on {
            // A crash between closing one file and taking up the next.
            audit.go_on(&key)?;
        } else if empty {
            audit.begin(&key)?;
        }
        if empty {
            files::sync_dir(dir).map_err(|source| AuditError::Io { path: dir.to_owned(), doing: "sync it", source })?;
        }
        if cut > 0 {
            audit.append("hapax", Action::TornTail, "", json!({ "bytes": cut }))?;
        }
        audit.let_go()?;
        let opened = Opened { rows: audit.rows(), key, cut };
        Ok((audit, opened))
    }
}

/// A crash in the middle of a turn: the next file was written, and the one before it may be closed already.
fn finish_turning(dir: &Path) -> std::io::Result<()> {
    let (active, next) = (files::active(dir), files::next(dir));
    if !next.exists() {
        return Ok(());
    }
    if active.exists() {
        // Nothing was said to anybody that stands in it.
        return fs::remove_file(next);
    }
    fs::rename(next, active)
}

/// The last rows of the file before.
struct Before {
    last: Option<(Row, Hash)>,
    rows: Vec<Row>,
}

impl Before {
    fn of(path: Option<&PathBuf>) -> std::io::Result<Self> {
        let mut rows = match path {
            None => Vec::new(),
            Some(path) => files::last_rows(path, TAIL)?,
        };
        let last = rows.pop();
        let mut rows: Vec<Row> = rows.into_iter().map(|(row, _)| row).collect();
        rows.extend(last.as_ref().map(|(row, _)| row.clone()));
        Ok(Self { last, rows })
    }
}

struct Found {
    inner: Inner,
    /// Bytes of whole rows, and behind them.
    whole: u64,
    cut: u64,
}

impl Found {
    fn in_file(file: &mut File, path: &Path, key: &str, before: &Before) -> Result<Self, AuditError> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|source| AuditError::Io {
            path: path.to_owned(),
            doing: "read it",
            source,
        })?;
        let broken = |bad: BadRow| AuditError::Broken { path: path.to_owned(), bad };
        let mut walk = Walk::new(None);
        walk.enter(path);
        let mut tail: VecDeque<Row> = before.rows.iter().cloned().collect();
        let mut since_checkpoint = 0;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            let first = walk.rows == 0;
            let row = walk.row(&line[..line.len() - 1]).map_err(broken)?;
            if let (true, Some((last, hash))) = (first, &before.last)
                && (row.n != last.n + 1 || row.prev != HEXLOWER.encode(hash))
            {
                let what = format!("it does not follow row {} of the file before it", last.n);
                return Err(broken(BadRow { file: path.to_owned(), row: row.n, offset: 0, what }));
            }
            let signs = matches!(row.action, Action::Checkpoint | Action::Continued);
            since_checkpoint = if signs { 0 } else { since_checkpoint + 1 };
            if tail.len() == TAIL {
                tail.pop_front();
            }
            tail.push_back(row);
        }
        if whole == 0
            && let Some((last, hash)) = &before.last
        {
            (walk.rows, walk.prev) = (last.n, *hash);
        } else if whole > 0 && walk.key != key {
            let what = format!("it is signed with another key than {KEY}");
            return Err(broken(BadRow { file: path.to_owned(), row: 1, offset: 0, what }));
        }
        let inner = Inner {
            first: walk.first,
            chain: walk.chain,
            rows: walk.rows,
            prev: walk.prev,
            since_checkpoint,
            tail,
            ..Inner::empty()
        };
        Ok(Self { inner, whole: whole as u64, cut: (bytes.len() - whole) as u64 })
    }
}
