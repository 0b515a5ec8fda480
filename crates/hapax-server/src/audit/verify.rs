//! Proves a chain, with nothing but its files and, if wanted, the public key.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;

use super::{
    files,
    walk::{MOST_LINE_BYTES, Walk},
};

/// A chain that is whole.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The number of the last row.
    pub rows: u64,
    /// The first row that is still there; those before it were let go, and a row says so.
    pub first: u64,
    pub files: usize,
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
    pub file: PathBuf,
    /// From 1; the row itself may say something else.
    pub row: u64,
    /// The byte of the file at which it begins.
    pub offset: u64,
    pub what: String,
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        write!(f, "{name}, row {} (byte {}): {}", self.row, self.offset, self.what)
    }
}

/// Walks over all rows of a directory's chain, or of one file. `key`: only this one may have signed; otherwise the one
/// that the first row names.
pub fn verify(path: &Path, key: Option<&str>) -> io::Result<Result<Verified, BadRow>> {
    let mut walk = Walk::new(key);
    let whole_chain = path.is_dir();
    let mut files = vec![path.to_owned()];
    if whole_chain {
        files = files::closed(path)?;
        // A crash in the middle of a turn leaves the next file beside, or none at all.
        let grows = [files::active(path), files::next(path)].into_iter().find(|file| file.exists());
        match grows {
            Some(file) => files.push(file),
            None if files.is_empty() => files.push(files::active(path)),
            None => {}
        }
    }
    let last = files.len() - 1;
    for (at, file) in files.iter().enumerate() {
        if let Err(bad) = one(&mut walk, file, at == last)? {
            return Ok(Err(bad));
        }
    }
    let (rows, first) = (walk.rows, walk.first);
    if rows == 0 {
        return Ok(Err(walk.bad("there is no row at all")));
    }
    if whole_chain && walk.let_go + 1 < first {
        let what = format!("rows {} to {} are gone, and no row says that they were let go", walk.let_go + 1, first - 1);
        let file = files.first().cloned().unwrap_or_default();
        return Ok(Err(BadRow { file, row: first, offset: 0, what }));
    }
    Ok(Ok(Verified {
        rows,
        first,
        files: files.len(),
        chain: walk.chain,
        key: walk.key,
        head: HEXLOWER.encode(&walk.prev),
        checkpoints: walk.checkpoints,
        signed_up_to: walk.signed_up_to,
        torn: walk.torn,
    }))
}

fn one(walk: &mut Walk<'_>, path: &Path, last: bool) -> io::Result<Result<(), BadRow>> {
    walk.enter(path);
    let mut file = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A byte more than a row may have: what is longer is none, and is not read into memory whole.
        let read = io::Read::take(&mut file, MOST_LINE_BYTES as u64 + 2).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(Ok(()));
        }
        if line.last() != Some(&b'\n') {
            if line.len() > MOST_LINE_BYTES {
                return Ok(Err(walk.bad("the line is longer than any row")));
            }
            if !last {
                return Ok(Err(walk.bad("the file was closed and ends in the middle of a row")));
            }
            walk.torn = line.len() as u64;
            return Ok(Ok(()));
        }
        line.pop();
        if let Err(bad) = walk.row(&line) {
            return Ok(Err(bad));
        }
    }
}
