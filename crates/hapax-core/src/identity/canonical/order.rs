//! The order of members: by the UTF-16 code units of their names, which is how RFC 8785 sorts.
//!
//! UTF-8 sorts by code point. The two orders differ in one place only: characters beyond U+FFFF are surrogate pairs
//! (0xD800…) in UTF-16 and so sort below U+E000–U+FFFF. In UTF-8 those are the lead bytes 0xF0… against 0xEE and 0xEF,
//! which are lead bytes and nothing else. So lifting 0xEE and 0xEF above all others makes byte order the right order.

use std::cmp::Ordering;

const fn lift(byte: u8) -> u8 {
    if byte == 0xEE || byte == 0xEF { byte + 0x10 } else { byte }
}

/// Compares two names given as UTF-8.
pub(super) fn by_utf16(left: &[u8], right: &[u8]) -> Ordering {
    match left.iter().zip(right).find(|(a, b)| a != b) {
        None => left.len().cmp(&right.len()),
        Some((&a, &b)) => lift(a).cmp(&lift(b)),
    }
}

/// The first eight bytes of `bytes[start..end]` as a number that sorts as the name does. Equal heads say nothing: look
/// further.
#[inline]
pub(super) fn head(bytes: &[u8], start: usize, end: usize) -> u64 {
    let len = end.saturating_sub(start);
    let word = match bytes.get(start..).and_then(<[u8]>::first_chunk::<8>) {
        // One load, and what lies beyond the name masked away; collecting the bytes one by one is far slower.
        Some(chunk) if len >= 8 => u64::from_be_bytes(*chunk),
        Some(chunk) => u64::from_be_bytes(*chunk) & !(u64::MAX >> (8 * len)),
        None => near_the_end(bytes.get(start..end).unwrap_or_default()),
    };
    if word & 0x8080_8080_8080_8080 == 0 { word } else { u64::from_be_bytes(word.to_be_bytes().map(lift)) }
}

fn near_the_end(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(name) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn surrogate_pairs_sort_below_private_use() {
        assert_eq!(by_utf16("😂".as_bytes(), "\u{fb33}".as_bytes()), Ordering::Less);
        assert_eq!(by_utf16("\u{e000}".as_bytes(), "\u{ffff}".as_bytes()), Ordering::Less);
        assert_eq!(by_utf16("a".as_bytes(), "ab".as_bytes()), Ordering::Less);
        assert_eq!(by_utf16(b"", b""), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn agrees_with_code_units(
            left in "[a-c\u{0}\u{7f}-\u{10ffff}]{0,6}",
            right in "[a-c\u{0}\u{d7f0}-\u{d7ff}\u{e000}-\u{10ffff}]{0,6}",
        ) {
            let expected = left.encode_utf16().cmp(right.encode_utf16());
            prop_assert_eq!(by_utf16(left.as_bytes(), right.as_bytes()), expected);
            for more in ["", "\"zzzzzzzz"] {
                let head = |name: &str| head(format!("{name}{more}").as_bytes(), 0, name.len());
                let heads = head(&left).cmp(&head(&right));
                prop_assert!(heads == expected || heads.is_eq());
            }
        }
    }
}
