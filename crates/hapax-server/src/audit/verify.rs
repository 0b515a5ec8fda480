//! Proves a chain, with nothing but the file and, if wanted, the public key.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use super::{
    row::{Action, Hash, Row, read_line},
    sign::is_signed,
};

/// A chain that is whole.
#[derive(Clone, Debug)]
pub struct Verified {
    pub rows: u64,
    /// The name of the chain.
    pub chain: String,
    /// The key that signs it, in hexadecimal.
    pub key: String,
    /// The hash of the last row: keep it elsewhere, and rows cut off the end will show.
    pub head: String,
    pub checkpoints: u64,
    /// The last row that a signature covers.
    pub signed_up_to: u64,
    /// Bytes of an unfinished last line; harmless, the next start cuts them off.
    pub torn: u64,
}

/// The first row that is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRow {
    /// From 1; the row itself may say something else.
    pub row: u64,
    /// The byte at which it begins.
    pub offset: u64,
    pub what: String,
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} (byte {}): {}", self.row, self.offset, self.what)
    }
}

/// Longer lines were never written.
pub(super) const MOST_LINE_BYTES: usize = 64 * 1024;

/// Walks over all rows. `key`: only this one may have signed; otherwise the one that the first row names.
pub fn verify(path: &Path, key: Option<&str>) -> io::Result<Result<Verified, BadRow>> {
    let mut walk = Walk::new(key);
    let mut file = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = file.read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if line.last() != Some(&b'\n') {
            walk.torn = line.len() as u64;
            break;
        }
        line.pop();
        if let Err(bad) = walk.row(&line) {
            return Ok(Err(bad));
        }
    }
    Ok(walk.end())
}

pub(super) struct Walk<'k> {
    demanded: Option<&'k str>,
    pub(super) chain: String,
    pub(super) key: String,
    pub(super) rows: u64,
    pub(super) prev: Hash,
    pub(super) offset: u64,
    checkpoints: u64,
    signed_up_to: u64,
    pub(super) torn: u64,
}

impl<'k> Walk<'k> {
    pub(super) fn new(demanded: Option<&'k str>) -> Self {
        Self {
            demanded,
            chain: String::new(),
            key: String::new(),
            rows: 0,
            prev: [0; 32],
            offset: 0,
            checkpoints: 0,
            signed_up_to: 0,
            torn: 0,
        }
    }

    fn bad(&self, what: impl Into<String>) -> BadRow {
        BadRow { row: self.rows + 1, offset: self.offset, what: what.into() }
    }

    /// Takes one more line, without its line feed.
    pub(super) fn row(&mut self, line: &[u8]) -> Result<Row, BadRow> {
        if line.len() > MOST_LINE_BYTES {
            return Err(self.bad("the line is longer than any row"));
        }
        let (row, hash) = read_line(line).map_err(|what| self.bad(what))?;
        if row.n != self.rows + 1 {
            return Err(self.bad(format!("it says that it is row {}", row.n)));
        }
        if row.prev != HEXLOWER.encode(&self.prev) {
            return Err(self.bad("it does not follow the row before it"));
        }
        let detail = |name: &str| row.detail.get(name).and_then(|value| value.as_str()).unwrap_or_default();
        match (row.action, self.rows) {
            (Action::Genesis, 0) => {
                self.chain = detail("chain").to_owned();
                self.key = detail("key").to_owned();
                if self.demanded.is_some_and(|demanded| !demanded.eq_ignore_ascii_case(&self.key)) {
                    return Err(self.bad("the chain is signed with another key than the one given"));
                }
            }
            (_, 0) => return Err(self.bad("a chain begins with a row `genesis`")),
            (Action::Genesis, _) => return Err(self.bad("a second row `genesis`")),
            (Action::Checkpoint, _) => {
                let hex = |text: &str| HEXLOWER_PERMISSIVE.decode(text.as_bytes()).unwrap_or_default();
                let (key, signature) = (hex(&self.key), hex(detail("signature")));
                if !is_signed(&key, &signature, &self.chain, row.n, &self.prev) {
                    return Err(self.bad("its signature does not fit"));
                }
                self.checkpoints += 1;
                self.signed_up_to = row.n - 1;
            }
            (
                Action::Started
                | Action::Stopped
                | Action::Resolve
                | Action::ResolveRefused
                | Action::PolicyChange
                | Action::KeysChange
                | Action::Eviction
                | Action::TornTail
                | Action::Repair
                | Action::A2aRepair
                | Action::A2aRepairRefused
                | Action::A2aAutoRetrySchedulerScan
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

    fn end(self) -> Result<Verified, BadRow> {
        if self.rows == 0 {
            return Err(self.bad("there is no row at all"));
        }
        Ok(Verified {
            rows: self.rows,
            chain: self.chain,
            key: self.key,
            head: HEXLOWER.encode(&self.prev),
            checkpoints: self.checkpoints,
            signed_up_to: self.signed_up_to,
            torn: self.torn,
        })
    }
}
