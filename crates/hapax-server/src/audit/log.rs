use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use data_encoding::HEXLOWER;
use hapax_engine::{SystemWallClock, WallClock};
use parking_lot::Mutex;
use serde_json::json;

use super::{
    row::{Action, Hash, Row, line_of},
    sign::Signer,
    verify::{BadRow, MOST_LINE_BYTES, Walk},
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
    #[error("the row cannot be written: {0} [HX0082]")]
    Row(String),
    #[error("the log could not be written to before; nothing more is written after that [HX0082]")]
    Poisoned,
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
const FILE: &str = "audit.log";
const KEY: &str = "audit.key";

/// The log of one data directory. Every row is on disk before [`Audit::append`] answers.
#[derive(Debug)]
pub struct Audit {
    inner: Mutex<Inner>,
    clock: Arc<dyn WallClock>,
    path: Option<PathBuf>,
}

#[derive(Debug)]
struct Inner {
    file: Option<File>,
    signer: Option<Signer>,
    chain: String,
    rows: u64,
    prev: Hash,
    since_checkpoint: u64,
    poisoned: bool,
    /// The newest rows, for those who look without a file.
    tail: std::collections::VecDeque<Row>,
}

const TAIL: usize = 256;

impl Audit {
    /// For stores without a directory: the rows are there to be seen and go with the process.
    #[must_use]
    pub fn in_memory() -> Self {
        let inner = Inner {
            file: None,
            signer: None,
            chain: String::new(),
            rows: 0,
            prev: [0; 32],
            since_checkpoint: 0,
            poisoned: false,
            tail: std::collections::VecDeque::new(),
        };
        Self { inner: Mutex::new(inner), clock: Arc::new(SystemWallClock), path: None }
    }

    /// Where the log of a data directory lies.
    #[must_use]
    pub fn path_in(dir: &Path) -> PathBuf {
        dir.join(FILE)
    }

    /// Opens the log of this directory, or begins one. The whole chain is checked; an unfinished last row is cut off, and
    /// a row says so.
    pub fn open(dir: &Path) -> Result<(Self, Opened), AuditError> {
        let path = Self::path_in(dir);
        let at = |doing| {
            let path = path.clone();
            move |source| AuditError::Io { path, doing, source }
        };
        let signer = Signer::open(&dir.join(KEY)).map_err(|source| AuditError::Io {
            path: dir.join(KEY),
            doing: "read or make the signing key",
            source,
        })?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(at("open it"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(at("read it"))?;
        let key = HEXLOWER.encode(&signer.public());
        let mut walk = Walk::new(None);
        let mut tail = std::collections::VecDeque::new();
        let mut since_checkpoint = 0;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            let row = walk.row(&line[..line.len() - 1]);
            let row = row.map_err(|bad| AuditError::Broken { path: path.clone(), bad })?;
            since_checkpoint = if row.action == Action::Checkpoint { 0 } else { since_checkpoint + 1 };
            if tail.len() == TAIL {
                tail.pop_front();
            }
            tail.push_back(row);
        }
        let cut = (bytes.len() - whole) as u64;
        if cut > 0 {
            file.set_len(whole as u64).map_err(at("cut off its torn end"))?;
        }
        file.seek(SeekFrom::End(0)).map_err(at("go to its end"))?;
        let inner = Inner {
            file: Some(file),
            chain: walk.chain,
            rows: walk.rows,
            prev: walk.prev,
            since_checkpoint,
            poisoned: false,
            tail,
            signer: Some(signer),
        };
        let audit = Self { inner: Mutex::new(inner), clock: Arc::new(SystemWallClock), path: Some(path) };
        if walk.rows == 0 {
            audit.begin(&key)?;
            sync_dir(dir).map_err(|source| AuditError::Io { path: dir.to_owned(), doing: "sync it", source })?;
        } else if walk.key != key {
            let bad = BadRow { row: 1, offset: 0, what: format!("it is signed with another key than {KEY}") };
            return Err(AuditError::Broken { path: Self::path_in(dir), bad });
        }
        if cut > 0 {
            audit.append("hapax", Action::TornTail, "", json!({ "bytes": cut }))?;
        }
        let opened = Opened { rows: audit.inner.lock().rows, key, cut };
        Ok((audit, opened))
    }

    fn begin(&self, key: &str) -> Result<(), AuditError> {
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
        let n = inner.write(self.path.as_deref(), at, actor, action, subject, detail)?;
        if inner.since_checkpoint >= ROWS_BETWEEN_CHECKPOINTS {
            inner.checkpoint(self.path.as_deref(), at)?;
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
        inner.checkpoint(self.path.as_deref(), at)
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
    fn checkpoint(&mut self, path: Option<&Path>, at: u64) -> Result<(), AuditError> {
        let Some(signer) = &self.signer else { return Ok(()) };
        let signature = HEXLOWER.encode(&signer.sign(&self.chain, self.rows + 1, &self.prev));
        self.write(path, at, "hapax", Action::Checkpoint, "", json!({ "signature": signature }))?;
        self.since_checkpoint = 0;
        Ok(())
    }

    fn write(
        &mut self,
        path: Option<&Path>,
        at: u64,
        actor: &str,
        action: Action,
        subject: &str,
        detail: serde_json::Value,
    ) -> Result<u64, AuditError> {
        if self.poisoned {
            return Err(AuditError::Poisoned);
        }
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
        if let Some(file) = &mut self.file {
            let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
            if let Err(source) = written {
                // What is on disk now is unknown, so the chain in memory may not be the one in the file.
                self.poisoned = true;
                let path = path.map(Path::to_owned).unwrap_or_default();
                return Err(AuditError::Io { path, doing: "write a row", source });
            }
        }
        self.rows = row.n;
        self.prev = hash;
        self.since_checkpoint += 1;
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(row);
        Ok(self.rows)
    }
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
