//! The lines of an export: 16 digits, a blank, JSON. The digits cover the line and all lines before it, so a line that is
//! changed, lost, doubled or moved is noticed where it happens. `docs/export-format.md` has the bytes.

use std::io::{self, BufRead, Write};

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The version that this program writes, and the newest that it reads.
pub(super) const VERSION: u64 = 1;
const SEED: &[u8] = b"hapax.export.v1\0";
/// Longer lines were never written: a body has at most 32 MiB.
const MOST_LINE_BYTES: u64 = 64 * 1024 * 1024;
const DIGITS: usize = 16;

/// What all lines so far come to.
#[derive(Clone)]
struct Chain([u8; 32]);

impl Chain {
    fn new() -> Self {
        Self(Sha256::digest(SEED).into())
    }

    fn take(&mut self, json: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(json);
        self.0 = hash.finalize().into();
        HEXLOWER.encode(&self.0[..DIGITS / 2])
    }
}

pub(super) struct Writer<W> {
    to: W,
    chain: Chain,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, chain: Chain::new() }
    }

    pub(super) fn line(&mut self, value: &Value) -> io::Result<()> {
        let json = value.to_string();
        let digits = self.chain.take(json.as_bytes());
        writeln!(self.to, "{digits} {json}")
    }

    /// Hands on what was written to, with everything in it.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Why a line cannot be used.
#[derive(Debug)]
pub(super) struct BadLine {
    pub(super) number: u64,
    pub(super) why: String,
}

pub(super) struct Reader<R> {
    from: R,
    chain: Chain,
    pub(super) number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, chain: Chain::new(), number: 0, line: Vec::new() }
    }

    pub(super) fn bad(&self, why: impl Into<String>) -> BadLine {
        BadLine { number: self.number, why: why.into() }
    }

    /// The next line; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Value>, BadLine> {
        self.line.clear();
        self.number += 1;
        let read = io::Read::take(&mut self.from, MOST_LINE_BYTES).read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| self.bad(format!("it cannot be read: {error}")))?;
        if read == 0 {
            return Ok(None);
        }
        if self.line.pop() != Some(b'\n') {
            return Err(self.bad("it is not whole: the file was cut short"));
        }
        let (digits, json) = self.line.split_at_checked(DIGITS).ok_or_else(|| self.bad("it is too short"))?;
        let json = json.strip_prefix(b" ").ok_or_else(|| self.bad("no blank follows its checksum"))?;
        let mut chain = self.chain.clone();
        if chain.take(json).as_bytes() != digits {
            return Err(self.bad("its checksum does not fit: it, or a line before it, was changed, lost or moved"));
        }
        let value = serde_json::from_slice(json).map_err(|_| self.bad("it is not JSON"))?;
        self.chain = chain;
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(lines: usize) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        for number in 0..lines {
            writer.line(&json!({ "number": number })).unwrap();
        }
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<u64, BadLine> {
        let mut reader = Reader::new(bytes);
        while reader.next()?.is_some() {}
        Ok(reader.number - 1)
    }

    #[test]
    fn a_changed_byte_a_lost_line_and_a_cut_are_named_by_their_line() {
        let good = written(6);
        assert_eq!(read(&good).unwrap(), 6);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x02;
            let line = good[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            assert_eq!(read(&bad).unwrap_err().number, line, "byte {at}");
        }
        let lines: Vec<&[u8]> = good.split_inclusive(|byte| *byte == b'\n').collect();
        let mut without = lines.clone();
        without.remove(2);
        assert_eq!(read(&without.concat()).unwrap_err().number, 3);
        let mut swapped = lines.clone();
        swapped.swap(3, 4);
        assert_eq!(read(&swapped.concat()).unwrap_err().number, 4);
        assert!(read(&good[..good.len() - 1]).unwrap_err().why.contains("cut short"));
    }
}
