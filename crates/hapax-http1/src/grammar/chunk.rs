//! The line before a chunk.

use super::{Violation, line};
use memchr::memchr;

/// More hexadecimal digits than any chunk has; what is longer overflows somebody's number.
const MOST_DIGITS: usize = 15;
/// Nobody uses chunk extensions; what is allowed of them is little.
const LONGEST_EXTENSION: usize = 256;
/// The whole line.
pub(super) const LONGEST: usize = 512;

/// The whole line in an answer, where some say more, and nobody behind us reads it.
pub(super) const LONGEST_OF_ANSWER: usize = 16 * 1024;

/// The size that such a line gives. Extensions are passed over, if nothing odd is in them.
pub(super) fn size(line: &[u8]) -> Result<u64, Violation> {
    let (digits, extension) = match memchr(b';', line) {
        Some(at) => line.split_at(at),
        None => (line, &b""[..]),
    };
    if extension.len() > LONGEST_EXTENSION || !line::is_value(extension) {
        return Err(Violation::Chunk);
    }
    number(digits)
}

/// The same in an answer. Servers that write the size before they know it leave room for it, in blanks or in zeros.
pub(super) fn size_of_answer(line: &[u8]) -> Result<u64, Violation> {
    let (digits, extension) = line.split_at(memchr(b';', line).unwrap_or(line.len()));
    if !line::is_value(extension) {
        return Err(Violation::Chunk);
    }
    let end = digits.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1);
    let digits = digits.get(..end).unwrap_or_default();
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    // One of them may be all there is.
    number(digits.get(zeros.min(digits.len().saturating_sub(1))..).unwrap_or_default())
}

fn number(digits: &[u8]) -> Result<u64, Violation> {
    if digits.len() > MOST_DIGITS {
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
