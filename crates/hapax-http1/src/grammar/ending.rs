use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr;

use super::Violation;

/// Looks for the empty line that ends a head, however the network cuts it into pieces. Each byte is looked at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ending {
    /// The bytes that were looked at, and where the line begins that they end in.
    seen: usize,
    line: usize,
    /// One empty line before it was passed over, as old clients send it after a body.
    passed: bool,
}

impl Ending {
    /// The next head among what was read, once all of it is there. `read` has at least what it had before.
    pub fn find_next(&mut self, read: &mut BytesMut, most: usize) -> Result<Option<Bytes>, Violation> {
        if self.line == 0 && !self.passed && read.starts_with(b"\r\n") {
            read.advance(2);
            *self = Self { passed: true, ..Self::default() };
        }
        match self.find(read)? {
            Some(length) if length <= most => Ok(Some(read.split_to(length).freeze())),
            None if read.len() <= most => Ok(None),
            Some(_) | None => Err(Violation::TooLong),
        }
    }

    /// How long the head is, once all of it is there. `bytes` are those of before and more.
    fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, Violation> {
        while let Some(at) = bytes.get(self.seen..).and_then(|fresh| memchr(b'\n', fresh)) {
            let end = self.seen + at;
            let Some(length) = end.checked_sub(self.line + 1).filter(|_| bytes.get(end - 1) == Some(&b'\r')) else {
                return Err(Violation::LineEnd);
            };
            (self.seen, self.line) = (end + 1, end + 1);
            if length == 0 {
                return Ok(Some(end + 1));
            }
        }
        self.seen = bytes.len();
        Ok(None)
    }
}
