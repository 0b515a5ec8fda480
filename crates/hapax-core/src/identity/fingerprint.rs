use std::fmt;

use subtle::ConstantTimeEq;

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
    /// Set when the digest is an HMAC under the store's secret.
    pub const KEYED: u8 = 0x80;
}

/// The payload guard: up to four digests of one request, each under its own scheme.
///
/// Two fingerprints match when any scheme that both carry has equal digests. So equal bytes match without
/// canonicalising, and a record written by an older version still compares by the scheme it was written with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    digests: [(u8, [u8; 32]); Self::MOST],
    len: u8,
}

impl Fingerprint {
    /// The most digests one fingerprint carries.
    pub const MOST: usize = 4;

    #[must_use]
    pub const fn of(scheme: Scheme, digest: [u8; 32]) -> Self {
        let mut digests = [(0, [0; 32]); Self::MOST];
        digests[0] = (scheme.0, digest);
        Self { digests, len: 1 }
    }

    /// Adds a digest. A fifth one, or a second of one scheme, is refused by returning `None`.
    #[must_use]
    pub fn and(mut self, scheme: Scheme, digest: [u8; 32]) -> Option<Self> {
        if usize::from(self.len) == Self::MOST || self.digests().any(|(known, _)| known == scheme) {
            return None;
        }
        self.digests[usize::from(self.len)] = (scheme.0, digest);
        self.len += 1;
        Some(self)
    }

    pub fn digests(&self) -> impl Iterator<Item = (Scheme, &[u8; 32])> {
        self.digests[..usize::from(self.len)].iter().map(|(scheme, digest)| (Scheme(*scheme), digest))
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

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schemes: Vec<u8> = self.digests().map(|(scheme, _)| scheme.0).collect();
        write!(f, "Fingerprint(schemes {schemes:?})")
    }
}
