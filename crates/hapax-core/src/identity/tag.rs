use std::{
    fmt,
    hash::{Hash, Hasher},
};

use super::frame::{self, Sink};
use super::scope::Tenant;
use super::surface::Surface;

/// Sixteen bytes that a store counts by: enough to keep surfaces and tenants apart, short enough for every index entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub [u8; 16]);

/// By words, as an id is hashed.
impl Hash for Tag {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.0.as_chunks::<8>().0 {
            state.write_u64(u64::from_le_bytes(*word));
        }
    }
}

impl Tag {
    /// All records of a surface.
    #[must_use]
    pub fn surface(surface: &Surface) -> Self {
        Self::cut(frame::tagged("hapax.tag.surface.v1", |hash| hash.frame(surface.as_str().as_bytes())))
    }

    /// One tenant's records on a surface. The tenant alone is not counted: every quota belongs to a surface.
    #[must_use]
    pub fn tenant(surface: &Surface, tenant: &Tenant) -> Self {
        Self::cut(frame::tagged("hapax.tag.tenant.v1", |hash| {
            hash.frame(surface.as_str().as_bytes());
            hash.frame(tenant.as_str().as_bytes());
        }))
    }

    fn cut(digest: [u8; 32]) -> Self {
        let mut tag = [0; 16];
        tag.copy_from_slice(&digest[..16]);
        Self(tag)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({})", data_encoding::HEXLOWER.encode(&self.0))
    }
}
