use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::fingerprint::Fingerprint;
use super::grammar::Grammar;
use super::header;
use super::recipes::native;

/// Why a key is refused. The messages name the rule, never the key: it may be a secret of the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// An empty key would make all requests one.
    #[error("the idempotency key is empty; send a unique value per intent, or no key at all")]
    Empty,
    /// Too short to be unique under this grammar.
    #[error("the idempotency key has {len} characters and needs at least {least}; use a longer random value")]
    TooShort { len: usize, least: usize },
    /// Too long for this grammar.
    #[error("the idempotency key has {len} characters and may have at most {most}; use a shorter value or its hash")]
    TooLong { len: usize, most: usize },
    /// A character outside the grammar.
    #[error("the idempotency key's character {position} is not allowed; use only {allowed}")]
    BadCharacter { position: usize, allowed: &'static str },
    /// The quoted form never ends.
    #[error("the idempotency key begins with a quote that is not closed; close it or send the key bare")]
    Unclosed,
    /// Only `\"` and `\\` are escapes in a structured-field string.
    #[error("the idempotency key has a backslash that escapes neither a quote nor a backslash; double it")]
    BadEscape,
    /// Structured-field parameters have no meaning here, so they are not silently dropped.
    #[error("the idempotency key is followed by parameters, which have no meaning here; send the string alone")]
    Parameters,
    /// Something else follows the closing quote.
    #[error("the idempotency key's closing quote is followed by more text; send one string alone")]
    TrailingText,
    /// Two places name two keys: nobody can say which intent is meant.
    #[error("{first} and {second} carry different idempotency keys; send one key, or the same in both")]
    Disagree { first: String, second: String },
}

/// Names one logical intent. Checked against a [`Grammar`] or made by a recipe.
///
/// It has no `Display` and its `Debug` shows a length only: the raw key is stored and logged nowhere.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Text);

/// One text has one form, so that equal keys are equal.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Text {
    /// Most keys: a number, a UUID, a short name. Nothing is allocated for them.
    Short {
        bytes: [u8; Text::SHORT],
        len: u8,
    },
    Long(Arc<str>),
}

impl Text {
    const SHORT: usize = 38;

    fn as_str(&self) -> &str {
        match self {
            // What was text when it went in is text still.
            Self::Short { bytes, len } => std::str::from_utf8(&bytes[..usize::from(*len)]).unwrap_or_default(),
            Self::Long(text) => text,
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let mut bytes = [0; Self::SHORT];
        match bytes.get_mut(..text.len()) {
            Some(room) => {
                room.copy_from_slice(text.as_bytes());
                Self::Short { bytes, len: text.len() as u8 }
            }
            None => Self::Long(text.into()),
        }
    }
}

/// Takes what a value shows of itself, as far as a key may go.
struct Shown {
    bytes: [u8; Shown::MOST],
    len: usize,
}

impl Shown {
    const MOST: usize = 256;
}

impl fmt::Write for Shown {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len.saturating_add(text.len());
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(text.as_bytes());
        }
        self.len = end;
        Ok(())
    }
}

impl Key {
    /// A key given as anything that can be shown: a number, an id, a text.
    pub fn shown(value: impl fmt::Display, grammar: &Grammar) -> Result<Self, KeyError> {
        let mut shown = Shown { bytes: [0; Shown::MOST], len: 0 };
        // A value that cannot be shown names nothing.
        write!(shown, "{value}").map_err(|_| KeyError::Empty)?;
        match shown.bytes.get(..shown.len).map(std::str::from_utf8) {
            Some(Ok(text)) => Self::new(text, grammar),
            Some(Err(_)) | None => Self::new(&value.to_string(), grammar),
        }
    }

    /// A key given as text: a query parameter, a body field, an argument.
    pub fn new(text: &str, grammar: &Grammar) -> Result<Self, KeyError> {
        grammar.check(text.as_bytes())?;
        Ok(Self(text.into()))
    }

    /// A key from a header's bytes, bare or as a quoted structured-field string (RFC 9651). Both spellings of one key
    /// are one key, because clients and proxies disagree about the draft's quotes.
    pub fn from_header(value: &[u8], grammar: &Grammar) -> Result<Self, KeyError> {
        let text = header::unquote(value)?;
        grammar.check(&text)?;
        // The grammar has just refused whatever is not ASCII.
        let text = std::str::from_utf8(&text);
        text.map(|text| Self(text.into()))
            .map_err(|error| KeyError::BadCharacter { position: error.valid_up_to() + 1, allowed: grammar.allowed() })
    }

    /// A key for callers that send none: the request itself, in its most normal form, so that a retry that was
    /// serialised anew is the same intent. Two intents that look alike are one; retention says for how long.
    #[must_use]
    pub fn automatic(print: &Fingerprint) -> Self {
        // What forgives most stands last: the canonical form or the parts, where there is one, else the bytes.
        let fields = print.digests().last().map(|(scheme, digest)| (scheme.0.to_le_bytes(), digest));
        match fields {
            Some((scheme, digest)) => native::named("automatic", 1, &[("scheme", &scheme), ("digest", digest)]),
            None => native::named("automatic", 1, &[]),
        }
    }

    /// The result of a recipe. Recipes have grammars of their own, so a header's does not apply.
    pub(crate) fn made(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().into())
    }

    /// The raw key, to hash it or to forward it downstream. Not for logs: see [`Secret::short_hash`].
    ///
    /// [`Secret::short_hash`]: super::Secret::short_hash
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.as_str().len())
    }
}
