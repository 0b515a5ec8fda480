//! The line before a chunk.

use super::{Violation, line};
use memchr::memchr;

/// More hexadecimal digits than any chunk has; what is longer overflows somebody's number.
const MOST_DIGITS: usize = 15;
/// Nobody uses chunk extensions; what is allowed of them is little.
const LONGEST_EXTENSION: usize = 256;
/// The whole line.
pub(super) const LONGEST: usize = 512;

/// The size that such a line gives. Extensions are passed over, if nothing odd is in them.
pub(super) fn size(line: &[u8]) -> Result<u64, Violation> {
    let (digits, extension) = match memchr(b';', line) {
        Some(at) => line.split_at(at),
        None => (line, &b""[..]),
    };
    if extension.len() > LONGEST_EXTENSION || !line::is_value(extension) || digits.len() > MOST_DIGITS {
        return Err(Violation::Chunk);
    }
    let mut size = None;
    for digit in digits {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return Err(Violation::Chunk),
        };
        size = Some(size.unwrap_or(0) << 4 | u64::from(value));
    }
    size.ok_or(Violation::Chunk)
}
