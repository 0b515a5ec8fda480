use std::{fmt, ops::Deref};

use bytes::Bytes;

/// As many as fit where a body's digests would be: an outcome is none the larger for them.
const SHORT: usize = 64;

/// The bytes of an answer. Short ones lie in place and are copied, so that whoever is given one allocates nothing; longer
/// ones are shared.
///
/// Its `Debug` shows no bytes: they belong to the caller, not to a log.
#[derive(Clone)]
pub struct Payload(Lies);

#[derive(Clone)]
enum Lies {
    InPlace { length: u8, bytes: [u8; SHORT] },
    Elsewhere(Bytes),
}

impl Payload {
    /// The longest that can lie in place.
    pub const SHORT: usize = SHORT;

    /// The first `length` of these, in place; all of them if there are fewer.
    #[inline]
    #[must_use]
    pub const fn short(bytes: [u8; SHORT], length: usize) -> Self {
        let length = if length < SHORT { length as u8 } else { SHORT as u8 };
        Self(Lies::InPlace { length, bytes })
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        match &self.0 {
            Lies::InPlace { length, .. } => *length as usize,
            Lies::Elsewhere(bytes) => bytes.len(),
        }
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shared where they are shared already, else a copy.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Lies::InPlace { .. } => Bytes::copy_from_slice(self),
            Lies::Elsewhere(bytes) => bytes.clone(),
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Lies::InPlace { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or(bytes),
            Lies::Elsewhere(bytes) => bytes,
        }
    }
}

/// Wherever they lie.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// Shared as they are, long or short: somebody has them already.
impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self(Lies::Elsewhere(bytes))
    }
}

impl From<Payload> for Bytes {
    fn from(payload: Payload) -> Self {
        match payload.0 {
            Lies::InPlace { .. } => Self::copy_from_slice(&payload),
            Lies::Elsewhere(bytes) => bytes,
        }
    }
}

/// In place if they are short: a vector would have to be moved to be shared.
impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        let mut short = [0; SHORT];
        match short.get_mut(..bytes.len()) {
            Some(part) => {
                part.copy_from_slice(&bytes);
                Self::short(short, bytes.len())
            }
            None => Self(Lies::Elsewhere(bytes.into())),
        }
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<&'static [u8]> for Payload {
    fn from(bytes: &'static [u8]) -> Self {
        Bytes::from_static(bytes).into()
    }
}

impl<const N: usize> From<&'static [u8; N]> for Payload {
    fn from(bytes: &'static [u8; N]) -> Self {
        Bytes::from_static(bytes).into()
    }
}

impl From<&'static str> for Payload {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Outcome};

    #[test]
    fn bytes_are_the_same_wherever_they_lie() {
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 1000] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (owned, shared) = (Payload::from(bytes.clone()), Payload::from(Bytes::from(bytes.clone())));
            assert_eq!(owned, shared);
            for payload in [owned, shared] {
                assert_eq!((&*payload, payload.len(), payload.is_empty()), (&*bytes, length, length == 0));
                assert_eq!((payload.to_bytes(), Bytes::from(payload)), (bytes.clone().into(), bytes.clone().into()));
            }
        }
        assert_ne!(Payload::from("a"), Payload::from("b".to_owned()));
        assert_eq!(Payload::from("a"), Payload::from("a".to_owned()));
        assert_eq!(Payload::from("text"), Payload::from(b"text"));
    }

    #[test]
    fn what_is_said_to_be_longer_than_it_can_be_ends_where_it_ends() {
        assert_eq!(&*Payload::short([7; SHORT], SHORT + 200), &[7; SHORT]);
        assert_eq!(&*Payload::short([7; SHORT], 3), &[7; 3]);
    }

    #[test]
    fn an_outcome_is_none_the_larger_for_a_body_in_place() {
        struct Stored(#[expect(dead_code, reason = "only its size counts")] [u64; 9]);
        enum Largest {
            #[expect(dead_code, reason = "only its size counts")]
            Stored(Stored),
            #[expect(dead_code, reason = "only its size counts")]
            Empty,
        }
        assert!(size_of::<Body>() <= size_of::<Largest>());
        assert_eq!(format!("{:?}", Outcome::success("secret").body), "Inline(6 bytes)");
    }
}
