//! Finds the one key that a request carries.

use std::borrow::Cow;

use hapax_core::identity::{Key, KeyError};
use http::request;
use serde_json::Value;

use crate::resolved::{Resolved, Source};

/// What a request says about its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Key(Key),
    /// Made from the request itself.
    Automatic,
    Nothing,
}

/// Why there is no one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    /// What is there cannot be one, so nothing was ever recorded under it.
    Malformed(String),
    /// There are several, or one beside something that is none.
    Several(String),
}

/// Whether headers or query carry anything for a key: enough to see whether the body matters.
pub(crate) fn is_in_head(resolved: &Resolved, head: &request::Parts) -> bool {
    resolved.sources.iter().any(|source| match source {
        Source::Header(name) => head.headers.contains_key(name),
        Source::Query(name) => query_values(head.uri.query().unwrap_or_default(), name).next().is_some(),
        Source::Pointer(_) | Source::Template(_) | Source::Automatic => false,
    })
}

/// Looks into headers and query only.
fn in_head(resolved: &Resolved, head: &request::Parts) -> Result<Found, Unfit> {
    let mut carried = Carried::default();
    for source in &resolved.sources {
        match source {
            Source::Header(name) => {
                for value in head.headers.get_all(name) {
                    carried.add(name.as_str(), value.as_bytes(), resolved)?;
                }
            }
            Source::Query(name) => {
                for value in query_values(head.uri.query().unwrap_or_default(), name) {
                    carried.add(name, &value, resolved)?;
                }
            }
            Source::Pointer(_) | Source::Template(_) | Source::Automatic => {}
        }
    }
    carried.found()
}

/// Looks everywhere. Whatever carries a key has to agree; only where nothing does, one is made.
pub(crate) fn anywhere(resolved: &Resolved, head: &request::Parts, body: &[u8]) -> Result<Found, Unfit> {
    let in_head = in_head(resolved, head)?;
    if !resolved.key_in_body() {
        return Ok(in_head);
    }
    let mut read = None;
    let mut carried = Carried::default();
    if let Found::Key(key) = in_head {
        carried.first = Some(("the request's head", key));
    }
    let pointers = resolved.sources.iter().filter_map(|source| match source {
        Source::Pointer(pointer) => Some(pointer),
        Source::Header(_) | Source::Query(_) | Source::Template(_) | Source::Automatic => None,
    });
    for pointer in pointers {
        let json = read.get_or_insert_with(|| serde_json::from_slice::<Value>(body).ok());
        match json.as_ref().and_then(|json| pointer.find(json)) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => carried.add(pointer.as_str(), text.as_bytes(), resolved)?,
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                return Err(carried.unfit(format!("the idempotency key at {pointer} is not a text; send it in quotes")));
            }
        }
    }
    match carried.found()? {
        Found::Nothing => made(resolved, body),
        found @ (Found::Key(_) | Found::Automatic) => Ok(found),
    }
}

fn made(resolved: &Resolved, body: &[u8]) -> Result<Found, Unfit> {
    for source in &resolved.sources {
        match source {
            Source::Template(template) => {
                // From its text: a number that was read first has lost the digits that tell two long orders apart.
                return template.key_of_json(body).map(Found::Key).map_err(|error| Unfit::Malformed(error.to_string()));
            }
            Source::Automatic => return Ok(Found::Automatic),
            Source::Header(_) | Source::Query(_) | Source::Pointer(_) => {}
        }
    }
    Ok(Found::Nothing)
}

/// The keys that were found so far; they are one, or the request is refused.
#[derive(Default)]
struct Carried<'a> {
    first: Option<(&'a str, Key)>,
    /// A key was sent, and it was blank.
    blank: bool,
}

impl<'a> Carried<'a> {
    fn add(&mut self, place: &'a str, value: &[u8], resolved: &Resolved) -> Result<(), Unfit> {
        if value.trim_ascii().is_empty() {
            self.blank = true;
            return Ok(());
        }
        // Bare or quoted wherever it stands: both spellings of one key are one key.
        let key = Key::from_header(value.trim_ascii(), &resolved.grammar);
        let key = key.map_err(|error| self.unfit(error.to_string()))?;
        match &self.first {
            None => self.first = Some((place, key)),
            Some((_, known)) if *known == key => {}
            Some((first, _)) => {
                let disagree = KeyError::Disagree { first: (*first).to_owned(), second: place.to_owned() };
                return Err(Unfit::Several(disagree.to_string()));
            }
        }
        Ok(())
    }

    fn unfit(&self, why: String) -> Unfit {
        if self.first.is_some() { Unfit::Several(why) } else { Unfit::Malformed(why) }
    }

    fn found(self) -> Result<Found, Unfit> {
        match (self.first, self.blank) {
            (Some((_, key)), _) => Ok(Found::Key(key)),
            // Whoever sends a key wants to be protected, so a blank one is not taken for none.
            (None, true) => Err(Unfit::Malformed(KeyError::Empty.to_string())),
            (None, false) => Ok(Found::Nothing),
        }
    }
}

/// The values of one query parameter, decoded.
fn query_values<'q>(query: &'q str, name: &'q str) -> impl Iterator<Item = Cow<'q, [u8]>> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(known, _)| *known == name).map(|(_, value)| decoded(value))
}

/// Percent-decoded; what is no escape stays as it is.
fn decoded(text: &str) -> Cow<'_, [u8]> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = after;
            }
        }
    }
    Cow::Owned(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
