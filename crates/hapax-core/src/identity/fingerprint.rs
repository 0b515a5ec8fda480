use std::{fmt, sync::Arc};

use serde::Serialize;
use serde_json::Value;
use subtle::ConstantTimeEq;

use super::printer::Printer;
use super::tuple::{Dependencies, DuplicateLabel, Part, TurnInput};

/// How a digest inside a [`Fingerprint`] was made. The number is stored; it is never given a second meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Scheme(pub u8);

impl Scheme {
    /// SHA-256 over the request's bytes as they came, version 1.
    pub const RAW_V1: Self = Self(1);
    /// SHA-256 over the request with its JSON body in canonical form (RFC 8785), version 1.
    pub const CANONICAL_V1: Self = Self(2);
    /// SHA-256 over labelled fields, label order ignored, version 1.
    pub const TUPLE_V1: Self = Self(3);
    /// SHA-256 over the request with its multipart body by parts, the boundary ignored, version 1.
    pub const PARTS_V1: Self = Self(4);
    /// Set when the digest is an HMAC under the store's secret.
    pub const KEYED: u8 = 0x80;

    /// The same scheme under the store's secret.
    #[must_use]
    pub const fn keyed(self) -> Self {
        Self(self.0 | Self::KEYED)
    }

    /// Whether the digest is an HMAC.
    #[must_use]
    pub const fn is_keyed(self) -> bool {
        self.0 & Self::KEYED != 0
    }
}

/// The payload guard: up to four digests of one request, each under its own scheme.
///
/// Two fingerprints match when any scheme that both carry has equal digests. So equal bytes match without
/// canonicalising where both carry the digest of the bytes, and a record written by an older version still compares by the scheme it was written with.
///
/// Shared: it goes from the call to the command to the record, and most calls bring none.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Fingerprint(Arc<Digests>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Digests {
    all: [(u8, [u8; 32]); Fingerprint::MOST],
    len: u8,
}

impl Fingerprint {
    /// The most digests one fingerprint carries.
    pub const MOST: usize = 4;

    /// A fingerprint of one digest, made elsewhere or read back from a store.
    #[must_use]
    pub fn of(scheme: Scheme, digest: [u8; 32]) -> Self {
        let mut all = [(0, [0; 32]); Self::MOST];
        all[0] = (scheme.0, digest);
        Self(Arc::new(Digests { all, len: 1 }))
    }

    /// Adds a digest. A fifth one, or a second of one scheme, is refused by returning `None`.
    #[must_use]
    pub fn and(mut self, scheme: Scheme, digest: [u8; 32]) -> Option<Self> {
        self.add(scheme, digest).then_some(self)
    }

    /// As [`Fingerprint::and`]; what is refused is left out.
    pub(crate) fn with(mut self, scheme: Scheme, digest: [u8; 32]) -> Self {
        self.add(scheme, digest);
        self
    }

    fn add(&mut self, scheme: Scheme, digest: [u8; 32]) -> bool {
        if usize::from(self.0.len) == Self::MOST || self.digests().any(|(known, _)| known == scheme) {
            return false;
        }
        let digests = Arc::make_mut(&mut self.0);
        digests.all[usize::from(digests.len)] = (scheme.0, digest);
        digests.len += 1;
        true
    }

    /// All digests with their schemes, for stores.
    #[inline]
    pub fn digests(&self) -> impl Iterator<Item = (Scheme, &[u8; 32])> {
        self.0.all[..usize::from(self.0.len)].iter().map(|(scheme, digest)| (Scheme(*scheme), digest))
    }

    /// Whether both are prints of the same request; takes the same time wherever the digests differ.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let mut equal = subtle::Choice::from(0);
        for (scheme, digest) in self.digests() {
            for (other_scheme, other_digest) in other.digests() {
                if scheme == other_scheme {
                    equal |= digest.ct_eq(other_digest);
                }
            }
        }
        equal.into()
    }
}

/// Without a secret; with one, ask a [`Printer`].
impl Fingerprint {
    /// Of bytes as they are. See [`Printer::of_bytes`].
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Printer::plain().of_bytes(bytes)
    }

    /// Of JSON as it came. See [`Printer::of_json_bytes`].
    #[must_use]
    pub fn of_json_bytes(json: &[u8]) -> Self {
        Printer::plain().of_json_bytes(json)
    }

    /// Of a JSON value. See [`Printer::of_json`].
    #[must_use]
    pub fn of_json(value: &Value) -> Self {
        Printer::plain().of_json(value)
    }

    /// Of anything serde can write as JSON. See [`Printer::of_serialize`].
    pub fn of_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Printer::plain().of_serialize(value)
    }

    /// Of a labelled tuple. See [`Printer::tuple`].
    pub fn tuple(parts: &[(&str, Part<'_>)]) -> Result<Self, DuplicateLabel> {
        Printer::plain().tuple(parts)
    }

    /// Of a turn's inputs. See [`Printer::input_fp`].
    #[must_use]
    pub fn input_fp(input: &TurnInput<'_>) -> Self {
        Printer::plain().input_fp(input)
    }

    /// Of what gives inputs their meaning. See [`Printer::dep_fp`].
    #[must_use]
    pub fn dep_fp(dependencies: &Dependencies<'_>) -> Self {
        Printer::plain().dep_fp(dependencies)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schemes: Vec<u8> = self.digests().map(|(scheme, _)| scheme.0).collect();
        write!(f, "Fingerprint(schemes {schemes:?})")
    }
}
