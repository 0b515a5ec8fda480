//! Numbers: the spelling ECMAScript gives to a double, unless a double would lose something.
//!
//! The rule, in full. Let *t* be the number as written and *s* the ECMAScript text of the double nearest to it.
//!
//! 1. *s* denotes the same number as *t*: write *s* (`4.50` → `4.5`, `1E30` → `1e+30`, `56.0` → `56`).
//! 2. *t* is a fraction with at most 17 significant digits, and not so small that the double is zero: write *s*.
//!    Seventeen digits are what printers of doubles produce (`333333333.33333329`), and RFC 8785's own test data
//!    demands it.
//! 3. Otherwise (a whole number that a double rounds, more digits than a double has, out of range): keep *t*. So
//!    `9007199254740993` and `9007199254740992` are two ids, not one.
//!
//! A kept text never equals the *s* of another number, since *s* read back is that number.

use super::scan::digits_end;

/// Seventeen significant digits tell any two doubles apart, so no printer of doubles writes more.
const DOUBLE_DIGITS: usize = 17;
/// Decimals of up to fifteen digits are told apart by a double, so such a text is already the shortest one.
const SAFE_DIGITS: usize = 15;

/// What one look at a number's text has found.
pub(super) struct Found {
    pub(super) end: usize,
    /// The text is its own canonical form.
    pub(super) canonical: bool,
}

/// Reads a number's text at `start`; `None` when it is not one by JSON's grammar.
pub(super) fn read(bytes: &[u8], start: usize) -> Option<Found> {
    let negative = bytes.get(start) == Some(&b'-');
    let whole = start + usize::from(negative);
    let whole_end = digits_end(bytes, whole);
    let leading_zero = bytes.get(whole) == Some(&b'0');
    if whole_end == whole || (leading_zero && whole_end - whole > 1) {
        return None;
    }
    let mut end = whole_end;
    let mut canonical = whole_end - whole <= SAFE_DIGITS && !(negative && leading_zero);
    if bytes.get(end) == Some(&b'.') {
        end = digits_end(bytes, whole_end + 1);
        let fraction = bytes.get(whole_end + 1..end)?;
        let &last = fraction.last()?;
        // Below 1e-6 ECMAScript turns to exponents; a fraction that starts with fewer zeros is safely above.
        let large = !leading_zero || fraction.iter().take(6).any(|&digit| digit != b'0');
        canonical = last != b'0' && large && end - whole - 1 <= SAFE_DIGITS;
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = end + 1 + sign;
        end = digits_end(bytes, exponent);
        canonical = false;
        if end == exponent {
            return None;
        }
    }
    Some(Found { end, canonical })
}

/// Writes the canonical text of a number that [`read`] has accepted.
pub(super) fn write(text: &str, out: &mut Vec<u8>) {
    let mut buffer = ryu_js::Buffer::new();
    let double = text.parse::<f64>().ok().filter(|double| double.is_finite());
    let Some(double) = double else {
        out.extend_from_slice(text.as_bytes());
        return;
    };
    let shortest = buffer.format_finite(double);
    // Short enough to have at most fifteen digits, and far from both ends of the range: nothing can be lost.
    if text.len() <= SAFE_DIGITS && (1e-290..1e290).contains(&double.abs()) {
        out.extend_from_slice(shortest.as_bytes());
        return;
    }
    let written = Decimal::of(text.as_bytes());
    let lossless = written == Decimal::of(shortest.as_bytes());
    let spelled_double = !written.whole() && written.len <= DOUBLE_DIGITS && double != 0.0;
    let chosen = if lossless || spelled_double { shortest } else { text };
    out.extend_from_slice(chosen.as_bytes());
}

/// The exact value of a number's text: ± 0.D × 10^point, D without outer zeros. Zero has no digits.
struct Decimal<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    skip: usize,
    len: usize,
    point: i64,
}

impl<'a> Decimal<'a> {
    fn of(text: &'a [u8]) -> Self {
        let (negative, text) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            _ => (false, text),
        };
        let (whole, rest) = text.split_at(digits_end(text, 0));
        let (fraction, rest) = match rest.split_first() {
            Some((b'.', rest)) => rest.split_at(digits_end(rest, 0)),
            _ => (&[][..], rest),
        };
        let digits = || whole.iter().chain(fraction);
        let all = whole.len() + fraction.len();
        let skip = digits().take_while(|&&digit| digit == b'0').count();
        let trailing = digits().rev().take_while(|&&digit| digit == b'0').count();
        let len = all.saturating_sub(skip + trailing);
        let shift = i64::try_from(whole.len()).unwrap_or(i64::MAX) - i64::try_from(skip).unwrap_or(i64::MAX);
        let point = if len == 0 { 0 } else { exponent(rest).saturating_add(shift) };
        Self { negative: negative && len > 0, whole, fraction, skip, len, point }
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.iter().chain(self.fraction).skip(self.skip).take(self.len).copied()
    }

    fn whole(&self) -> bool {
        self.point >= i64::try_from(self.len).unwrap_or(i64::MAX)
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.negative, self.len, self.point) == (other.negative, other.len, other.point)
            && self.digits().eq(other.digits())
    }
}

/// The exponent after `e`, saturating: no double lives out there anyway.
fn exponent(text: &[u8]) -> i64 {
    let Some((_, text)) = text.split_first() else { return 0 };
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let size = digits
        .iter()
        .fold(0_i64, |sum, &digit| sum.saturating_mul(10).saturating_add(i64::from(digit.wrapping_sub(b'0'))));
    if negative { -size } else { size }
}

#[cfg(test)]
#[allow(clippy::expect_used)] // A test stops where its premise is wrong.
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        let found = read(text.as_bytes(), 0).expect("a number");
        assert_eq!(found.end, text.len());
        let mut out = Vec::new();
        write(text, &mut out);
        let out = String::from_utf8(out).expect("text");
        if found.canonical {
            assert_eq!(out, text, "the quick look and the long way must agree");
        }
        out
    }

    #[test]
    fn spelling_is_normalised_where_nothing_is_lost() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("0e999999999999999999999", "0"),
            ("56.0", "56"),
            ("4.50", "4.5"),
            ("1E30", "1e+30"),
            ("2e-3", "0.002"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("123e-20", "1.23e-18"),
            ("333333333.33333329", "333333333.3333333"),
            ("4.9406564584124654e-324", "5e-324"),
            ("9007199254740992", "9007199254740992"),
            ("9007199254740994.0", "9007199254740994"),
            ("100000000000000000000", "100000000000000000000"),
            ("1000000000000000000000", "1e+21"),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
        }
    }

    #[test]
    fn two_big_ids_are_never_one_payload() {
        for text in [
            "9007199254740993",
            "-9007199254740993",
            "9007199254740993.0",
            "18446744073709551615",
            "123456789012345678901234567890",
            "0.1000000000000000055511151231257827",
            "1e400",
            "-1e400",
            "1e-400",
            "1e99999999999999999999999999",
        ] {
            assert_eq!(canonical(text), text);
        }
    }

    #[test]
    fn what_json_does_not_call_a_number_is_refused() {
        for text in ["", "-", "01", "-01", "1.", ".5", "1e", "1e+", "+1", "--1", "1.e3"] {
            assert!(read(text.as_bytes(), 0).is_none_or(|found| found.end != text.len()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn quick_look_and_long_way_agree(text in "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?") {
            canonical(&text);
        }

        #[test]
        fn canonical_text_stays(text in "-?(0|[1-9][0-9]{0,20})(\\.0{0,8}[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?") {
            let once = canonical(&text);
            prop_assert_eq!(canonical(&once), once);
        }

        #[test]
        fn every_double_is_spelled_as_ecmascript_does(bits: u64) {
            let double = f64::from_bits(bits);
            prop_assume!(double.is_finite());
            let expected = ryu_js::Buffer::new().format_finite(double).to_owned();
            prop_assert_eq!(canonical(&format!("{double:e}")), expected);
        }
    }
}
