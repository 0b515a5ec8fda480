use std::cmp::Ordering;

/// Compares two strings, given as UTF-8, by their UTF-16 code units, which is how RFC 8785 sorts members.
///
/// UTF-8 sorts by code point. The two orders differ in one place only: characters beyond U+FFFF are surrogate pairs
/// (0xD800…) in UTF-16 and so sort below U+E000–U+FFFF. In UTF-8 those are the lead bytes 0xF0… against 0xEE and
/// 0xEF; at any later byte the leads were equal and both orders agree.
pub(super) fn by_utf16(left: &[u8], right: &[u8]) -> Ordering {
    let shared = left.len().min(right.len());
    let differ = left.iter().zip(right).take(shared).find(|(a, b)| a != b);
    match differ {
        None => left.len().cmp(&right.len()),
        Some((&a, &b)) if a >= 0xEE && b >= 0xEE => (a < 0xF0, a).cmp(&(b < 0xF0, b)),
        Some((a, b)) => a.cmp(b),
    }
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
        fn agrees_with_code_units(left in "[a-c\u{7f}-\u{10ffff}]{0,6}", right in "[a-c\u{d7f0}-\u{d7ff}\u{e000}-\u{10ffff}]{0,6}") {
            let expected = left.encode_utf16().cmp(right.encode_utf16());
            prop_assert_eq!(by_utf16(left.as_bytes(), right.as_bytes()), expected);
        }
    }
}
