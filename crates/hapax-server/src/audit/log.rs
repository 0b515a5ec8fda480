use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use data_encoding::HEXLOWER;
use hapax_engine::{SystemWallClock, WallClock};
use parking_lot::Mutex;
use serde_json::json;

use super::{
    files,
    row::{Action, Hash, Row, line_of},
    sign::Signer,
    verify::BadRow,
    walk::MOST_LINE_BYTES,
};

/// Why the audit log cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    #[error("{path}: cannot {doing}: {source} [HX0082]")]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    #[error(
        "{path} is not the log that was written: {bad}; keep the file as evidence, move it away, and start a new chain [HX0082]"
    )]
    Broken { path: PathBuf, bad: BadRow },
    #[error(
        "{path} is being written by another process, and two would each write over the other's rows; stop that process, or \
         name another directory [HX0082]"
    )]
    InUse { path: PathBuf },
    #[error("the row cannot be written: {0} [HX0082]")]
    Row(String),
    #[error("the log could not be written to before; nothing more is written after that [HX0082]")]
    Poisoned,
}

/// How long files grow, and how long closed ones are kept.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    /// A file that has so many bytes is closed, and the chain goes on in the next.
    pub file_bytes: u64,
    /// A closed file whose last row is older than this is let go; never if `None`.
    pub keep: Option<Duration>,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { file_bytes: 16 * 1024 * 1024, keep: None }
    }
}

/// What opening found.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    pub rows: u64,
    pub key: String,
    /// Bytes of an unfinished row that were cut off.
    pub cut: u64,
}

/// After so many rows a checkpoint is signed.
const ROWS_BETWEEN_CHECKPOINTS: u64 = 64;
const MOST_TEXT: usize = 2048;

/// The log of one data directory. Every row is on disk before [`Audit::append`] answers.
#[derive(Debug)]
pub struct Audit {
    pub(super) inner: Mutex<Inner>,
    pub(super) clock: Arc<dyn WallClock>,
    pub(super) dir: Option<PathBuf>,
    pub(super) options: AuditOptions,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) file: Option<File>,
    /// Nobody else writes while this is open.
    pub(super) _lock: Option<File>,
    pub(super) signer: Option<Signer>,
    pub(super) chain: String,
    pub(super) rows: u64,
    pub(super) prev: Hash,
    pub(super) since_checkpoint: u64,
    /// The first row of the file that grows, and its bytes.
    pub(super) first: u64,
    pub(super) size: u64,
    pub(super) poisoned: bool,
    /// The newest rows, for those who look without a file.
    pub(super) tail: VecDeque<Row>,
}

pub(super) const TAIL: usize = 256;

impl Audit {
    /// For stores without a directory: the rows are there to be seen and go with the process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::of(Inner::empty(), None, AuditOptions::default())
    }

    pub(super) fn of(inner: Inner, dir: Option<PathBuf>, options: AuditOptions) -> Self {
        Self { inner: Mutex::new(inner), clock: Arc::new(SystemWallClock), dir, options }
    }

    /// Where the file that grows lies in a data directory.
    #[must_use]
    pub fn path_in(dir: &Path) -> PathBuf {
        files::active(dir)
    }

    pub(super) fn begin(&self, key: &str) -> Result<(), AuditError> {
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(|error| AuditError::Row(error.to_string()))?;
        let chain = HEXLOWER.encode(&name);
        self.inner.lock().chain.clone_from(&chain);
        self.append("hapax", Action::Genesis, "", json!({ "chain": chain, "key": key })).map(drop)
    }

    /// Adds a row, durable before this answers; its number.
    pub fn append(
        &self,
        actor: &str,
        action: Action,
        subject: &str,
        detail: serde_json::Value,
    ) -> Result<u64, AuditError> {
        let at = self.clock.now().0;
        let mut inner = self.inner.lock();
        let n = inner.write(self.dir.as_deref(), at, actor, action, subject, detail)?;
        if inner.since_checkpoint >= ROWS_BETWEEN_CHECKPOINTS {
            inner.checkpoint(self.dir.as_deref(), at)?;
        }
        if let Some(dir) = self.dir.as_deref().filter(|_| inner.size >= self.options.file_bytes) {
            inner.turn(dir, at)?;
        }
        Ok(n)
    }

    /// Signs all that was written so far.
    pub fn checkpoint(&self) -> Result<(), AuditError> {
        let at = self.clock.now().0;
        let mut inner = self.inner.lock();
        if inner.since_checkpoint == 0 {
            return Ok(());
        }
        inner.checkpoint(self.dir.as_deref(), at)
    }

    /// The newest rows, oldest first.
    #[must_use]
    pub fn tail(&self, most: usize) -> Vec<Row> {
        let inner = self.inner.lock();
        inner.tail.iter().skip(inner.tail.len().saturating_sub(most)).cloned().collect()
    }

    #[must_use]
    pub fn rows(&self) -> u64 {
        self.inner.lock().rows
    }
}

impl Inner {
    pub(super) fn empty() -> Self {
        Self {
            file: None,
            _lock: None,
            signer: None,
            chain: String::new(),
            rows: 0,
            prev: [0; 32],
            since_checkpoint: 0,
            first: 1,
            size: 0,
            poisoned: false,
            tail: VecDeque::new(),
        }
    }

    /// A statement about all rows so far, to stand in the next.
    pub(super) fn signature(&self) -> Option<String> {
        let signer = self.signer.as_ref()?;
        Some(HEXLOWER.encode(&signer.sign(&self.chain, self.rows + 1, &self.prev)))
    }

    pub(super) fn checkpoint(&mut self, dir: Option<&Path>, at: u64) -> Result<(), AuditError> {
        let Some(signature) = self.signature() else { return Ok(()) };
        self.write(dir, at, "hapax", Action::Checkpoint, "", json!({ "signature": signature }))?;
        self.since_checkpoint = 0;
        Ok(())
    }

    /// The row that comes next, its line and its hash.
    pub(super) fn next_row(
        &self,
        at: u64,
        actor: &str,
        action: Action,
        subject: &str,
        detail: serde_json::Value,
    ) -> Result<(Row, String, Hash), AuditError> {
        let short = |text: &str| text.chars().take(MOST_TEXT).collect::<String>();
        let row = Row {
            n: self.rows + 1,
            at,
            actor: short(actor),
            action,
            subject: short(subject),
            detail,
            prev: HEXLOWER.encode(&self.prev),
        };
        let (line, hash) = line_of(&row).map_err(|error| AuditError::Row(error.to_string()))?;
        if line.len() > MOST_LINE_BYTES {
            return Err(AuditError::Row(format!("it has {} bytes and may have {MOST_LINE_BYTES}", line.len())));
        }
        Ok((row, line, hash))
    }

    fn write(
        &mut self,
        dir: Option<&Path>,
        at: u64,
        actor: &str,
        action: Action,
        subject: &str,
        detail: serde_json::Value,
    ) -> Result<u64, AuditError> {
        if self.poisoned {
            return Err(AuditError::Poisoned);
        }
        let (row, line, hash) = self.next_row(at, actor, action, subject, detail)?;
        if let Some(file) = &mut self.file {
            let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
            if let Err(source) = written {
                // What is on disk now is unknown, so the chain in memory may not be the one in the file.
                self.poisoned = true;
                let path = dir.map(files::active).unwrap_or_default();
                return Err(AuditError::Io { path, doing: "write a row", source });
            }
        }
        self.size += line.len() as u64;
        self.since_checkpoint += 1;
        self.took(row, hash);
        Ok(self.rows)
    }

    /// The row is written, and is the last one now.
    pub(super) fn took(&mut self, row: Row, hash: Hash) {
        self.rows = row.n;
        self.prev = hash;
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(row);
    }
}
