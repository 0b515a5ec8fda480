use std::{
    fmt,
    hash::{Hash, Hasher},
};

use super::frame::{self, Sink};
use super::key::Key;
use super::scope::Scope;
use super::surface::Surface;

/// The 32 bytes under which a record is stored.
///
/// An id is a digest, so it says nothing about the key behind it and may be logged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(pub [u8; 32]);

/// By words: of bytes a hasher takes the length as well, and looks how many there are.
impl Hash for Id {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.0.as_chunks::<8>().0 {
            state.write_u64(u64::from_le_bytes(*word));
        }
    }
}

impl Id {
    /// The id of the operation that `key` names on this surface and in this scope.
    ///
    /// Fed to the hasher part by part, each with its length: different tuples never share an id, and nothing is
    /// allocated on the way.
    #[must_use]
    pub fn operation(surface: &Surface, scope: &Scope, key: &Key) -> Self {
        Self(frame::tagged("hapax.operation.v1", |hash| operation(hash, surface, scope, key)))
    }

    /// The id of a record of another kind (a group, a task, a memo): its domain and parts, encoded the same way.
    #[must_use]
    pub fn derived(domain: &str, parts: &[&[u8]]) -> Self {
        Self(frame::tagged("hapax.derived.v1", |hash| derived(hash, domain, parts)))
    }

    /// The bytes, for stores.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads the form that [`fmt::Display`] writes: 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

fn operation(sink: &mut impl Sink, surface: &Surface, scope: &Scope, key: &Key) {
    sink.frame(surface.as_str().as_bytes());
    scope.write(sink);
    sink.frame(key.as_str().as_bytes());
}

fn derived(sink: &mut impl Sink, domain: &str, parts: &[&[u8]]) {
    sink.frame(domain.as_bytes());
    sink.number(parts.len() as u64);
    for part in parts {
        sink.frame(part);
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({}…)", data_encoding::HEXLOWER.encode(&self.0[..6]))
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)] // A test stops where its premise is wrong.
mod tests {
    use super::*;
    use crate::identity::{Grammar, Tenant};
    use proptest::prelude::*;

    type Tuple = (String, String, Vec<(String, String)>, String);

    /// Short texts over few characters, separators among them: the ones most likely to run into each other.
    fn tuple() -> impl Strategy<Value = Tuple> {
        let parts = prop::collection::btree_map("[ab:|/]{1,2}", "[ab:|/]{0,3}", 0..3)
            .prop_map(|parts| parts.into_iter().collect::<Vec<_>>());
        ("[ab:/]{1,3}", "[ab:|]{1,3}", parts, "[ab:|]{1,4}")
    }

    fn encoding((surface, tenant, parts, key): &Tuple) -> Vec<u8> {
        let mut scope = Scope::of(Tenant::new(tenant).expect("a tenant"));
        for (label, value) in parts {
            scope = scope.with(label, value).expect("a part");
        }
        let key = Key::new(key, &Grammar::visible()).expect("a key");
        let surface = Surface::new(surface).expect("a surface");
        let mut bytes = Vec::new();
        operation(&mut bytes, &surface, &scope, &key);
        bytes
    }

    /// Moves `by` bytes over the border between two neighbours: the classic way to make joined tuples collide.
    fn shift(left: &str, right: &str, by: usize) -> (String, String) {
        let joined = format!("{left}{right}");
        let border = 1 + by % (joined.len() - 1);
        (joined[..border].to_owned(), joined[border..].to_owned())
    }

    proptest! {
        #[test]
        fn different_tuples_have_different_encodings(left in tuple(), right in tuple()) {
            prop_assert_eq!(left == right, encoding(&left) == encoding(&right));
        }

        #[test]
        fn moving_a_border_changes_the_encoding(tuple in tuple(), by: usize) {
            let (tenant, key) = shift(&tuple.1, &tuple.3, by);
            let moved = (tuple.0.clone(), tenant, tuple.2.clone(), key);
            prop_assert_eq!(moved == tuple, encoding(&moved) == encoding(&tuple));
        }

        #[test]
        fn derived_parts_keep_their_borders(
            left in prop::collection::vec(prop::collection::vec(0..2_u8, 0..10), 0..4),
            right in prop::collection::vec(prop::collection::vec(0..2_u8, 0..10), 0..4),
        ) {
            let encode = |parts: &[Vec<u8>]| {
                let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                let mut bytes = Vec::new();
                derived(&mut bytes, "task", &parts);
                bytes
            };
            prop_assert_eq!(left == right, encode(&left) == encode(&right));
        }
    }

    #[test]
    fn an_id_reads_back_from_its_text() {
        let id = Id::derived("group", &[b"a", b"b"]);
        assert_eq!(Id::parse(&id.to_string()), Some(id));
        assert_ne!(id, Id::derived("group", &[b"ab"]));
        assert_ne!(id, Id::derived("task", &[b"a", b"b"]));
    }
}
