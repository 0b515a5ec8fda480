use std::fmt;

use serde_json::Value;

/// Why a text is not a JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointerError {
    /// RFC 6901 pointers are empty or begin with a slash.
    #[error("JSON pointer `{0}` does not begin with `/`; write `/{0}` for a member of that name")]
    NoSlash(String),
    /// A tilde is only allowed as `~0` (a tilde) or `~1` (a slash).
    #[error("JSON pointer `{0}` has a `~` that is not part of `~0` or `~1`; write `~0` for a tilde")]
    BadEscape(String),
    /// The empty pointer means the whole document, which cannot be left out or given a role.
    #[error("the empty JSON pointer means the whole document and cannot be used here; name a member")]
    WholeDocument,
}

/// A JSON pointer (RFC 6901), parsed once when a policy is loaded so that no request can find it malformed.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer {
    text: String,
    tokens: Vec<String>,
}

impl Pointer {
    /// Parses the text form, e.g. `/customer/id`.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        let Some(rest) = text.strip_prefix('/') else {
            if text.is_empty() {
                return Ok(Self { text: String::new(), tokens: Vec::new() });
            }
            return Err(PointerError::NoSlash(text.to_owned()));
        };
        let tokens = rest.split('/').map(|token| unescape(token, text)).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), tokens })
    }

    /// A pointer along these names.
    pub(crate) fn along(tokens: &[String]) -> Self {
        let text = tokens.iter().map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1"))).collect();
        Self { text, tokens: tokens.to_vec() }
    }

    /// The text as it was parsed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The reference tokens, unescaped.
    #[must_use]
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Whether this pointer names `other` or something that holds it; two such pointers cannot have different roles.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.tokens.starts_with(&self.tokens)
    }

    /// The value it points to, if there is one.
    #[must_use]
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.tokens.iter().try_fold(value, |value, token| match value {
            Value::Object(members) => members.get(token),
            Value::Array(elements) => elements.get(Self::index(token)?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    /// A token read as an array index: digits without leading zeros. `-` (past the end) names nothing that exists.
    pub(crate) fn index(token: &str) -> Option<usize> {
        let canonical = token == "0" || !token.starts_with(['0', '+']);
        if canonical { token.parse().ok() } else { None }
    }
}

fn unescape(token: &str, whole: &str) -> Result<String, PointerError> {
    let mut text = String::with_capacity(token.len());
    let mut rest = token.chars();
    while let Some(next) = rest.next() {
        text.push(match next {
            '~' => match rest.next() {
                Some('0') => '~',
                Some('1') => '/',
                _ => return Err(PointerError::BadEscape(whole.to_owned())),
            },
            other => other,
        });
    }
    Ok(text)
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pointer({:?})", self.text)
    }
}

impl std::str::FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        Self::parse(text)
    }
}
