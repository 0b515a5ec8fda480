//! What a JSON pointer leads to, as it is written there: an amount of twenty digits is undone with all of them.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// `None`: there is nothing at this place.
pub(super) fn pointed<'j>(json: &'j RawValue, pointer: &str) -> Option<&'j RawValue> {
    let mut at = json;
    let tokens = match pointer.strip_prefix('/') {
        Some(tokens) => tokens.split('/'),
        None => return pointer.is_empty().then_some(at),
    };
    for token in tokens {
        let token = token.replace("~1", "/").replace("~0", "~");
        at = match at.get().as_bytes().first()? {
            b'{' => serde_json::from_str::<HashMap<String, &RawValue>>(at.get()).ok()?.get(&token).copied()?,
            b'[' => serde_json::from_str::<Vec<&RawValue>>(at.get()).ok()?.get(index(&token)?).copied()?,
            _ => return None,
        };
    }
    Some(at)
}

/// Digits without leading zeros.
fn index(token: &str) -> Option<usize> {
    if token == "0" || !token.starts_with(['0', '+']) { token.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_where_serde_json_finds_it_and_keeps_its_digits() {
        let text = r#" {"a": [1, {"b/c": 12345678901234567890.10}], "~": null, "": 1e400, "tw\u006f": 2} "#;
        let json: &RawValue = serde_json::from_str(text).unwrap();
        let found = |pointer: &str| pointed(json, pointer).map(RawValue::get);
        assert_eq!(found("/a/1/b~1c"), Some("12345678901234567890.10"));
        assert_eq!(found("/"), Some("1e400"));
        assert_eq!((found("/~0"), found("/two"), found("/a/0")), (Some("null"), Some("2"), Some("1")));
        assert_eq!(found(""), Some(text.trim()));
        for nowhere in ["/b", "/a/2", "/a/01", "/a/-", "/a/0/0", "a"] {
            assert_eq!(found(nowhere), None, "{nowhere}");
        }
    }
}
