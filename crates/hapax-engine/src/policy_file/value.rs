//! Single values: what each kind of knob accepts, and what to say otherwise.

use std::sync::Arc;

use hapax_core::{Millis, Span, identity::Pointer, policy::Treatment};
use toml::de::{DeTable, DeValue};

use super::{length, report::short, suggest};

/// A value, or the rule it breaks.
pub type Read<T> = Result<T, String>;

/// A text in quotes.
pub fn text<'t>(value: &'t DeValue<'_>) -> Read<&'t str> {
    match value {
        DeValue::String(text) => Ok(text),
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => Err(format!("needs a text in quotes, and this is {}", kind(value))),
    }
}

/// Yes or no.
pub fn flag(value: &DeValue<'_>) -> Read<bool> {
    value.as_bool().ok_or_else(|| format!("needs `true` or `false`, and this is {}", kind(value)))
}

/// A table.
pub fn table<'t, 'i>(value: &'t DeValue<'i>) -> Read<&'t DeTable<'i>> {
    value.as_table().ok_or_else(|| format!("needs a table such as {{ … }}, and this is {}", kind(value)))
}

/// One of some words.
pub fn choice<T: Copy>(value: &DeValue<'_>, words: &[(&str, T)]) -> Read<T> {
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let DeValue::String(text) = value else {
        return Err(format!("needs one of {}, and this is {}", suggest::listed(&known), kind(value)));
    };
    words
        .iter()
        .find(|(word, _)| word == text)
        .map(|(_, meant)| *meant)
        .ok_or_else(|| format!("`{}` is not known here{}", short(text), suggest::or_one_of(text, &known)))
}

/// A length of time.
pub fn millis(value: &DeValue<'_>) -> Read<Millis> {
    match value {
        DeValue::String(text) if text == "forever" => {
            Err("`forever` is for what is kept; write a length such as \"60s\"".to_owned())
        }
        DeValue::String(text) => length::parse(text),
        DeValue::Integer(number) => Err(unitless(number.as_str())),
        DeValue::Float(number) => Err(unitless(number.as_str())),
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            Err(format!("needs a length such as \"60s\", and this is {}", kind(value)))
        }
    }
}

fn unitless(number: &str) -> String {
    if number.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("a bare number has no unit; write \"{0}s\" or \"{0}ms\"", short(number))
    } else {
        "a bare number has no unit; write a length such as \"60s\"".to_owned()
    }
}

/// How long something is kept. Nothing is kept for 0, which others take for "no limit".
pub fn span(value: &DeValue<'_>) -> Read<Span> {
    const ZERO: &str = "0 is refused, since it is read both ways; say \"forever\", or how long";
    match value {
        DeValue::String(text) if text == "forever" => Ok(Span::Forever),
        DeValue::Integer(number) if number.as_str().bytes().all(|byte| byte == b'0') => Err(ZERO.to_owned()),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => match millis(value)? {
            Millis::ZERO => Err(ZERO.to_owned()),
            length => Ok(Span::For(length)),
        },
    }
}

/// What happens to a failure: replayed for so long, `open` or `release`.
pub fn treatment(value: &DeValue<'_>) -> Read<Treatment> {
    match value {
        DeValue::String(text) if text == "open" => Ok(Treatment::Open),
        DeValue::String(text) if text == "release" => Ok(Treatment::Release),
        DeValue::String(text) if !text.starts_with(|first: char| first.is_ascii_digit()) && text != "forever" => {
            Err(format!("`{}` is not known here; write how long it is replayed, `open` or `release`", short(text)))
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => span(value).map(Treatment::Replay),
    }
}

/// A plain number of things.
pub fn count(value: &DeValue<'_>) -> Read<u64> {
    let DeValue::Integer(number) = value else {
        return Err(format!("needs a plain number, and this is {}", kind(value)));
    };
    u64::from_str_radix(number.as_str(), number.radix())
        .ok()
        .filter(|number| i64::try_from(*number).is_ok())
        .ok_or_else(|| "needs a number from 0 up that fits 63 bits".to_owned())
}

/// As [`count`], in 32 bits.
pub fn small_count(value: &DeValue<'_>) -> Read<u32> {
    u32::try_from(count(value)?).map_err(|_| format!("may be at most {}", u32::MAX))
}

/// A number of bytes, bare or with a unit.
pub fn size(value: &DeValue<'_>) -> Read<u64> {
    let DeValue::String(text) = value else { return count(value) };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let each: Option<u64> = match unit {
        "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let size = number.parse::<u64>().ok().zip(each).and_then(|(number, each)| number.checked_mul(each));
    size.filter(|size| i64::try_from(*size).is_ok()).ok_or_else(|| {
        format!("`{}` is no size; write bytes as a number, or one of B, KiB, MiB, GiB, such as \"16KiB\"", short(text))
    })
}

/// A list of texts, each checked.
pub fn texts(value: &DeValue<'_>, check: impl Fn(&str) -> Read<Arc<str>>) -> Read<Vec<Arc<str>>> {
    let Some(list) = value.as_array() else {
        return Err(format!("needs a list of texts, and this is {}", kind(value)));
    };
    list.iter().map(|item| check(text(item.get_ref())?)).collect()
}

/// A header's name, in the one spelling that is compared.
pub fn header(name: &str) -> Read<Arc<str>> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(allowed) {
        return Err(format!("`{}` is no header name; write it without colon and value", short(name)));
    }
    let name = name.to_ascii_lowercase();
    if name == "set-cookie" {
        return Err("`set-cookie` is never stored: a replay would hand one caller's session to another".to_owned());
    }
    Ok(name.into())
}

/// A JSON pointer.
pub fn pointer(text: &str) -> Read<Arc<str>> {
    Pointer::parse(text).map(|_| text.into()).map_err(|error| error.to_string())
}

/// A pointer to a part: leaving out the whole document would turn the guard off.
pub fn inner_pointer(text: &str) -> Read<Arc<str>> {
    if text.is_empty() {
        return Err("the empty pointer is the whole document; name a member, or set the mode to `off`".to_owned());
    }
    pointer(text)
}

const fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
