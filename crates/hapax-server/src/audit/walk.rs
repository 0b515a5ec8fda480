//! From row to row, over as many files as there are.

use std::path::{Path, PathBuf};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use super::{
    row::{Action, Hash, Row, read_line},
    sign::is_signed,
    verify::BadRow,
};

/// Longer lines were never written.
pub(super) const MOST_LINE_BYTES: usize = 64 * 1024;

pub(super) struct Walk<'k> {
    demanded: Option<&'k str>,
    file: PathBuf,
    pub(super) chain: String,
    pub(super) key: String,
    /// The number of the last row.
    pub(super) rows: u64,
    /// The number of the first row that was seen.
    pub(super) first: u64,
    pub(super) prev: Hash,
    pub(super) offset: u64,
    pub(super) checkpoints: u64,
    pub(super) signed_up_to: u64,
    /// Rows up to this one were let go.
    pub(super) let_go: u64,
    pub(super) torn: u64,
}

impl<'k> Walk<'k> {
    pub(super) fn new(demanded: Option<&'k str>) -> Self {
        Self {
            demanded,
            file: PathBuf::new(),
            chain: String::new(),
            key: String::new(),
            rows: 0,
            first: 1,
            prev: [0; 32],
            offset: 0,
            checkpoints: 0,
            signed_up_to: 0,
            let_go: 0,
            torn: 0,
        }
    }

    /// The rows of this file come next.
    pub(super) fn enter(&mut self, file: &Path) {
        file.clone_into(&mut self.file);
        self.offset = 0;
    }

    pub(super) fn bad(&self, what: impl Into<String>) -> BadRow {
        BadRow { file: self.file.clone(), row: self.rows + 1, offset: self.offset, what: what.into() }
    }

    /// Takes one more line, without its line feed.
    pub(super) fn row(&mut self, line: &[u8]) -> Result<Row, BadRow> {
        if line.len() > MOST_LINE_BYTES {
            return Err(self.bad("the line is longer than any row"));
        }
        let (row, hash) = read_line(line).map_err(|what| self.bad(what))?;
        if self.rows == 0 && row.action == Action::Continued && row.n > 1 {
            // The files before are not here: the row says what it follows, and its signature that this is so.
            let prev = HEXLOWER_PERMISSIVE.decode(row.prev.as_bytes()).ok().and_then(|prev| prev.try_into().ok());
            self.prev = prev.ok_or_else(|| self.bad("it does not say what it follows"))?;
            self.rows = row.n - 1;
            self.first = row.n;
            self.names(&row)?;
        }
        if row.n != self.rows + 1 {
            return Err(self.bad(format!("it says that it is row {}", row.n)));
        }
        if row.prev != HEXLOWER.encode(&self.prev) {
            return Err(self.bad("it does not follow the row before it"));
        }
        match (row.action, self.rows) {
            (Action::Genesis, 0) => self.names(&row)?,
            (_, 0) => return Err(self.bad("a chain begins with a row `genesis`")),
            (Action::Genesis, _) => return Err(self.bad("a second row `genesis`")),
            (Action::Continued, _) => {
                if text(&row, "chain") != self.chain || text(&row, "key") != self.key {
                    return Err(self.bad("it goes on with another chain"));
                }
                self.signed(&row)?;
            }
            (Action::Checkpoint, _) => {
                self.signed(&row)?;
                self.checkpoints += 1;
            }
            (Action::LetGo, _) => {
                let up_to = row.detail.get("up_to").and_then(serde_json::Value::as_u64).unwrap_or_default();
                self.let_go = self.let_go.max(up_to);
            }
            (
                Action::Started
                | Action::Stopped
                | Action::Resolve
                | Action::ResolveRefused
                | Action::Unwind
                | Action::SeenTo
                | Action::RetryInverse
                | Action::Operate
                | Action::PolicyChange
                | Action::KeysChange
                | Action::KeysChangeFailed
                | Action::Eviction
                | Action::TornTail
                | Action::Repair
                | Action::A2aRepair
                | Action::A2aRepairRefused
                | Action::A2aAutoRetrySchedulerScan
                | Action::A2aRetryStale
                | Action::A2aCompact
                | Action::Import,
                _,
            ) => {}
        }
        self.rows += 1;
        self.prev = hash;
        self.offset += line.len() as u64 + 1;
        Ok(row)
    }

    /// The chain's name and key, from the first row that is there.
    fn names(&mut self, row: &Row) -> Result<(), BadRow> {
        text(row, "chain").clone_into(&mut self.chain);
        text(row, "key").clone_into(&mut self.key);
        if self.demanded.is_some_and(|demanded| !demanded.eq_ignore_ascii_case(&self.key)) {
            return Err(self.bad("the chain is signed with another key than the one given"));
        }
        Ok(())
    }

    fn signed(&mut self, row: &Row) -> Result<(), BadRow> {
        let hex = |text: &str| HEXLOWER_PERMISSIVE.decode(text.as_bytes()).unwrap_or_default();
        let (key, signature) = (hex(&self.key), hex(text(row, "signature")));
        if !is_signed(&key, &signature, &self.chain, row.n, &self.prev) {
            return Err(self.bad("its signature does not fit"));
        }
        self.signed_up_to = row.n - 1;
        Ok(())
    }
}

fn text<'r>(row: &'r Row, name: &str) -> &'r str {
    row.detail.get(name).and_then(|value| value.as_str()).unwrap_or_default()
}
