use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr;

use super::fault::Fault;

/// What every answer begins with.
const BEGINNING: &[u8] = b"HTTP/1.";

/// Looks for the empty line that ends an answer's head, however the network cuts it into pieces. Each byte is looked at once.
///
/// Lines may end without a carriage return here: some old servers write such, and there is one way to read it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    /// Where the line begins that was looked at last.
    seen: usize,
    /// What came before this head, which has no more room for it.
    before: usize,
}

impl Ending {
    /// After an answer that is not the last one. Whoever goes on and on with these is heard no longer than whoever has one that long.
    pub(super) const fn after(self, interim: usize) -> Self {
        Self { seen: 0, before: self.before + interim }
    }

    /// The next head among what was read, once all of it is there. `read` has at least what it had before.
    pub(super) fn find_next(&mut self, read: &mut BytesMut, most: usize) -> Result<Option<Bytes>, Fault> {
        let begun = self.seen > 0 || self.is_begun(read);
        let Some(most) = most.checked_sub(self.before) else { return Err(Fault::Head("it is too long")) };
        if !begun {
            return Ok(None);
        }
        // Whoever speaks another protocol may never come to an empty line.
        if !read.iter().zip(BEGINNING).all(|(byte, expected)| byte == expected) {
            return Err(Fault::Head("it is not HTTP/1"));
        }
        match self.find(read) {
            Some(length) if length <= most => Ok(Some(read.split_to(length).freeze())),
            None if read.len() <= most => Ok(None),
            Some(_) | None => Err(Fault::Head("it is too long")),
        }
    }

    fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(at) = bytes.get(self.seen..).and_then(|fresh| memchr(b'\n', fresh)) {
            let next = self.seen + at + 1;
            match bytes.get(next..).unwrap_or_default() {
                [b'\n', ..] => return Some(next + 1),
                [b'\r', b'\n', ..] => return Some(next + 2),
                // Whether it is an empty one is not known yet, so its beginning is looked at again.
                [] | [b'\r'] => {
                    self.seen = next - 1;
                    return None;
                }
                [..] => self.seen = next,
            }
        }
        self.seen = bytes.len();
        None
    }

    /// Passes over empty lines before a head, as some servers send them after a body. Whether something else is there.
    fn is_begun(&mut self, read: &mut BytesMut) -> bool {
        loop {
            let empty = match **read {
                [] | [b'\r'] => return false,
                [b'\n', ..] => 1,
                [b'\r', b'\n', ..] => 2,
                [..] => return true,
            };
            read.advance(empty);
            self.before += empty;
        }
    }
}
