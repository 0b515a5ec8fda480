use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use super::scope::{self, ScopeError};

/// A named place where duplicates arrive, with one policy: `http`, `tool`, `run`, or the user's own.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Surface(Arc<str>);

impl Surface {
    /// The most bytes a surface's name may have; it labels metrics, so it stays short.
    pub const MOST_BYTES: usize = 64;
    /// Marks the shadow of a surface. Not allowed in names, so that nobody's own surface is another's shadow.
    pub const SHADOW: &str = "~shadow";

    /// Checks the name: letters, digits and `._:/-`.
    pub fn new(name: &str) -> Result<Self, ScopeError> {
        scope::check("surface", name, Self::MOST_BYTES)?;
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte)) {
            return Err(ScopeError::BadCharacter { what: "surface", rule: "only letters, digits and `._:/-`" });
        }
        Ok(Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where the records of shadow mode live, so that they never decide an enforced request.
    #[must_use]
    pub fn shadow(&self) -> Self {
        if self.0.ends_with(Self::SHADOW) { self.clone() } else { Self(format!("{}{}", self.0, Self::SHADOW).into()) }
    }
}

/// So that a surface is found by its name without making one.
impl Borrow<str> for Surface {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
