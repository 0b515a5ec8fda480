//! Lengths of time as text: a number and a unit, `250ms`, `60s`, `5m`, `24h`, `14d`.

use hapax_core::Millis;

/// Longer than anybody means; a typing error, or `forever`.
const LONGEST: Millis = Millis::from_days(36_500);

pub(super) fn parse(text: &str) -> Result<Millis, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let each = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    if number.is_empty() || each == 0 {
        return Err(format!(
            "`{}` is no length; write a whole number and one of ms, s, m, h, d, such as \"90s\"",
            super::report::short(text)
        ));
    }
    let length = number.parse::<u64>().ok().and_then(|number| number.checked_mul(each)).map(Millis);
    length.filter(|length| *length <= LONGEST).ok_or_else(|| {
        format!("`{}` is longer than a hundred years; write a shorter length", super::report::short(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_and_nothing_else() {
        for (text, ms) in [
            ("0s", 0),
            ("250ms", 250),
            ("60s", 60_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("14d", 1_209_600_000),
            ("36500d", 3_153_600_000_000),
        ] {
            assert_eq!(parse(text), Ok(Millis(ms)), "{text}");
        }
        for text in [
            "",
            "s",
            "60",
            "1.5s",
            "-1s",
            "+1s",
            " 1s",
            "1 s",
            "1S",
            "1w",
            "1h30m",
            "36501d",
            "9999999999999999999999d",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_a_length_prints_is_read_back() {
        for ms in [1, 999, 1_000, 61_000, 3_600_000, 86_400_000, 86_400_001] {
            assert_eq!(parse(&Millis(ms).to_string()), Ok(Millis(ms)));
        }
    }
}
