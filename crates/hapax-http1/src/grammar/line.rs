//! What a line and the pieces of one may be made of.

use super::Violation;

const TOKEN: u8 = 1;
const TARGET: u8 = 2;

/// For each byte, what it may be part of.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
            )
        {
            kinds[byte] |= TOKEN;
        }
        if b > 0x20 && b < 0x7f && b != b'#' {
            kinds[byte] |= TARGET;
        }
        byte += 1;
    }
    kinds
};

fn all(bytes: &[u8], kind: u8) -> bool {
    bytes.iter().all(|byte| KINDS[*byte as usize] & kind != 0)
}

pub(super) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TOKEN)
}

/// Visible characters, blanks and bytes above ASCII: no control character, so no CR, LF or NUL either.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    // To the end in any case: without a way out many bytes are looked at at once.
    bytes.iter().fold(true, |so_far, byte| so_far & ((*byte >= 0x20) & (*byte != 0x7f) | (*byte == b'\t')))
}

pub(super) fn is_target(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TARGET)
}

/// A line up to its line feed, without the carriage return that must stand before it.
pub(super) fn without_cr(line: &[u8]) -> Result<&[u8], Violation> {
    line.strip_suffix(b"\r").ok_or(Violation::LineEnd)
}

pub(crate) fn trimmed(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !is_blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    value.get(start..end).unwrap_or_default()
}
