use std::fmt;
use std::sync::Arc;

use super::frame::Sink;

/// Why a tenant, surface or scope cannot be built. The values themselves are not shown: they may come from a caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// An empty name would make strangers share one scope.
    #[error("{what} is empty; give it a name, since an empty one would be shared by all")]
    Empty { what: &'static str },
    /// Lengths are bounded because every record carries them.
    #[error("{what} is {len} bytes long and may have at most {most}; use a shorter name or a hash of it")]
    TooLong { what: &'static str, len: usize, most: usize },
    /// Characters that logs and metrics cannot carry.
    #[error("{what} holds a character that is not allowed: {rule}")]
    BadCharacter { what: &'static str, rule: &'static str },
    /// A label names one part; a second value for it would be ambiguous, and `tenant` is always the first.
    #[error("scope label `{0}` is used twice or reserved; give each part its own label, other than `tenant`")]
    LabelTaken(String),
    /// The number of parts is bounded.
    #[error("a scope may have at most {most} parts beside the tenant; put fewer into it")]
    TooManyParts { most: usize },
}

/// Whose operation it is. It comes from the credential, never from the body, and nothing works without it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// The most bytes a tenant's name may have.
    pub const MOST_BYTES: usize = 256;

    /// Checks the name: not empty, bounded, no control characters.
    pub fn new(name: &str) -> Result<Self, ScopeError> {
        check("tenant", name, Self::MOST_BYTES)?;
        Ok(Self(name.into()))
    }

    /// The name, for lists and counters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Tenant first, then whatever else isolates keys. There is no default and no scope without a tenant: forgetting it
/// would let strangers replay each other's answers, so it does not compile.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scope {
    tenant: Tenant,
    parts: Vec<(Arc<str>, Arc<str>)>,
}

impl Scope {
    /// The most parts beside the tenant.
    pub const MOST_PARTS: usize = 8;

    /// The scope of everything one tenant does.
    #[must_use]
    pub const fn of(tenant: Tenant) -> Self {
        Self { tenant, parts: Vec::new() }
    }

    /// Narrows it by one more labelled part. Order matters: it is part of the identity.
    pub fn with(mut self, label: &str, value: &str) -> Result<Self, ScopeError> {
        check("scope label", label, 64)?;
        if value.len() > Tenant::MOST_BYTES {
            return Err(ScopeError::TooLong { what: "scope part", len: value.len(), most: Tenant::MOST_BYTES });
        }
        if label == "tenant" || self.parts.iter().any(|(known, _)| **known == *label) {
            return Err(ScopeError::LabelTaken(label.to_owned()));
        }
        if self.parts.len() == Self::MOST_PARTS {
            return Err(ScopeError::TooManyParts { most: Self::MOST_PARTS });
        }
        self.parts.push((label.into(), value.into()));
        Ok(self)
    }

    /// Whose scope it is.
    #[must_use]
    pub const fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The parts beside the tenant, in order.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts.iter().map(|(label, value)| (&**label, &**value))
    }

    pub(crate) fn write(&self, sink: &mut impl Sink) {
        sink.number(self.parts.len() as u64);
        sink.frame(self.tenant.as_str().as_bytes());
        for (label, value) in self.parts() {
            sink.frame(label.as_bytes());
            sink.frame(value.as_bytes());
        }
    }
}

/// The checks that all names share.
pub(super) fn check(what: &'static str, name: &str, most: usize) -> Result<(), ScopeError> {
    if name.is_empty() {
        return Err(ScopeError::Empty { what });
    }
    if name.len() > most {
        return Err(ScopeError::TooLong { what, len: name.len(), most });
    }
    // Plain letters are soon seen, many at once since nothing ends the look early; only others have to be read as characters.
    let is_plain = name.bytes().fold(true, |so_far, byte| so_far & (b' '..0x7f).contains(&byte));
    if !is_plain && name.chars().any(char::is_control) {
        return Err(ScopeError::BadCharacter { what, rule: "no control characters" });
    }
    Ok(())
}
