/// Marks, by their high bits, the bytes of a word that are a quote, a backslash or a control character.
///
/// The usual zero-byte trick: subtracting borrows into the high bit of exactly those bytes that were too small. A
/// borrow may run on into the bytes above, so only the lowest mark is to be trusted, and it is the one that is used.
const fn care(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    let low = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let slash = slash.wrapping_sub(ONES) & !slash;
    (low | quote | slash) & HIGH
}

/// Whether none of them is a quote, a backslash or a control character. No branch before the end, so that the compiler compares many at once.
#[inline]
fn are_plain(chunk: &[u8; 32]) -> bool {
    !chunk.iter().fold(false, |care, &byte| care | (byte < 0x20) | (byte == b'"') | (byte == b'\\'))
}

/// The first position at or after `at` whose byte cannot be copied through a string as it is.
#[inline]
pub(super) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at..).and_then(<[u8]>::first_chunk).is_some_and(are_plain) {
        at += 32;
    }
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let marks = care(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(&byte) = bytes.get(at) {
        if byte < 0x20 || byte == b'"' || byte == b'\\' {
            break;
        }
        at += 1;
    }
    at
}

/// The first position at or after `at` that is not JSON white space.
#[inline]
pub(super) fn solid(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The first position at or after `at` that is not a decimal digit.
#[inline]
pub(super) fn digits_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b'0'..=b'9') = bytes.get(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_every_byte_that_needs_care_wherever_it_stands() {
        for place in 0..75 {
            for byte in 0..=255_u8 {
                let mut text = [b'x'; 75];
                text[place] = byte;
                let expected = if byte < 0x20 || byte == b'"' || byte == b'\\' { place } else { 75 };
                assert_eq!(plain_end(&text, 0), expected, "byte {byte} at {place}");
            }
        }
    }
}
