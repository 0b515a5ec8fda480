use std::borrow::Cow;

use super::key::KeyError;

/// A key's text out of a header value: as it is, or without the quotes and escapes of a structured-field string.
///
/// A bare value is any text that does not begin with a quote, so a key that does has to be sent quoted.
pub(super) fn unquote(value: &[u8]) -> Result<Cow<'_, [u8]>, KeyError> {
    let value = trim(value);
    let Some(quoted) = value.strip_prefix(b"\"") else {
        return Ok(Cow::Borrowed(value));
    };
    let mut text = Vec::with_capacity(quoted.len());
    let mut rest = quoted.iter();
    loop {
        match rest.next() {
            Some(b'"') => break,
            Some(b'\\') => match rest.next() {
                Some(&escaped @ (b'"' | b'\\')) => text.push(escaped),
                Some(_) => return Err(KeyError::BadEscape),
                None => return Err(KeyError::Unclosed),
            },
            Some(&byte) => text.push(byte),
            None => return Err(KeyError::Unclosed),
        }
    }
    match trim(rest.as_slice()) {
        [] => Ok(Cow::Owned(text)),
        [b';', ..] => Err(KeyError::Parameters),
        _ => Err(KeyError::TrailingText),
    }
}

/// Without the optional white space that HTTP allows around a field's value.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
