use serde_json::Value;

use super::canonical;
use super::key::Key;
use super::pointer::Pointer;

/// Why a template cannot be parsed, or has no value for some input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A brace without its partner.
    #[error("the template has an unbalanced `{{` or `}}` at byte {at}; write it twice to mean the character")]
    Unbalanced { at: usize },
    /// `{}` or a path with an empty step.
    #[error("the template has an empty name at byte {at}; write a path such as `{{args.order_id}}`")]
    EmptyName { at: usize },
    /// The same text for every input is no key.
    #[error("the template names no field, so every input would have the same key; add one such as `{{args.order_id}}`")]
    NoField,
    /// The input does not have the field. Never an empty string: that would make strangers' orders one.
    #[error("the input has no `{path}`, which the key is made of; send it or change the template")]
    Missing { path: String },
    /// Only texts, numbers and booleans have one obvious spelling, and an empty text tells nothing apart.
    #[error("the input's `{path}` is {kind} and cannot be part of a key; send a text, number or boolean")]
    Unusable { path: String, kind: &'static str },
    /// The input has no one reading.
    #[error("the input is not JSON that all readers read alike; send an object without duplicate members")]
    Unreadable,
}

/// A business key's pattern over JSON input, such as `refund:{args.order_id}`. Literal braces are doubled.
///
/// Parsed once, when a policy is loaded. Values are put in as they are, nothing is escaped: readable keys are the
/// point. So a template is **not injective** where values may hold its literal text (`{a}:{b}`); put the field that
/// callers control last, use one field, or use a native recipe, which is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Literal(String),
    Field(Vec<String>),
}

impl Template {
    /// Parses the pattern.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text.char_indices().peekable();
        while let Some((at, next)) = rest.next() {
            let twin = rest.peek().is_some_and(|&(_, follower)| follower == next);
            match next {
                '{' | '}' if twin => {
                    rest.next();
                    literal.push(next);
                }
                '}' => return Err(TemplateError::Unbalanced { at }),
                '{' => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    }
                    let mut path = String::new();
                    loop {
                        match rest.next() {
                            Some((_, '}')) => break,
                            Some((_, '{')) | None => return Err(TemplateError::Unbalanced { at }),
                            Some((_, part)) => path.push(part),
                        }
                    }
                    let steps: Vec<String> = path.split('.').map(str::to_owned).collect();
                    if steps.iter().any(String::is_empty) {
                        return Err(TemplateError::EmptyName { at });
                    }
                    pieces.push(Piece::Field(steps));
                }
                other => literal.push(other),
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        if !pieces.iter().any(|piece| matches!(piece, Piece::Field(_))) {
            return Err(TemplateError::NoField);
        }
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// The pattern as it was parsed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The key for this input.
    pub fn key(&self, input: &Value) -> Result<Key, TemplateError> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Field(path) => push(&mut text, input, path)?,
            }
        }
        Ok(Key::made(text))
    }
}

impl Template {
    /// As [`key`](Self::key), from the text of the input: a number too big for a double keeps all its digits.
    pub fn key_of_json(&self, input: &[u8]) -> Result<Key, TemplateError> {
        let fields = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Field(path) => Some(Pointer::along(path)),
        });
        let fields: Vec<Pointer> = fields.collect();
        let mut values = canonical::values(input, &fields).ok_or(TemplateError::Unreadable)?.into_iter();
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Field(path) => text.push_str(&spelled(values.next().flatten(), path)?),
            }
        }
        Ok(Key::made(text))
    }
}

/// How a value stands in a key, from its canonical form.
fn spelled(value: Option<Vec<u8>>, path: &[String]) -> Result<String, TemplateError> {
    let path = || path.join(".");
    let value = value.ok_or_else(|| TemplateError::Missing { path: path() })?;
    let kind = match value.first() {
        Some(b'"') => {
            let text: String = serde_json::from_slice(&value).map_err(|_| TemplateError::Unreadable)?;
            if !text.is_empty() {
                return Ok(text);
            }
            "an empty text"
        }
        Some(b'n') => "null",
        Some(b'[') => "a list",
        Some(b'{') => "an object",
        Some(_) | None => return String::from_utf8(value).map_err(|_| TemplateError::Unreadable),
    };
    Err(TemplateError::Unusable { path: path(), kind })
}

fn push(text: &mut String, input: &Value, path: &[String]) -> Result<(), TemplateError> {
    let found = path.iter().try_fold(input, |value, step| match value {
        Value::Object(members) => members.get(step),
        Value::Array(elements) => elements.get(super::pointer::Pointer::index(step)?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    });
    let kind = match found {
        None => return Err(TemplateError::Missing { path: path.join(".") }),
        Some(Value::String(value)) if !value.is_empty() => {
            text.push_str(value);
            return Ok(());
        }
        Some(value @ (Value::Number(_) | Value::Bool(_))) => {
            // In canonical spelling: 5 and 5.0 are one amount, and have to be one key.
            let spelled = value.to_string();
            let canonical = canonical::to_vec(spelled.as_bytes()).and_then(|bytes| String::from_utf8(bytes).ok());
            text.push_str(&canonical.unwrap_or(spelled));
            return Ok(());
        }
        Some(Value::String(_)) => "an empty text",
        Some(Value::Null) => "null",
        Some(Value::Array(_)) => "a list",
        Some(Value::Object(_)) => "an object",
    };
    Err(TemplateError::Unusable { path: path.join("."), kind })
}
