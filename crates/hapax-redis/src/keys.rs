use std::sync::Arc;

use hapax_core::{BodyId, Id};

use crate::error::OpenError;

pub(crate) const BUCKETS: usize = 256;

/// Where things lie. All keys of a bucket have one hash tag, so that a cluster keeps them in one slot.
#[derive(Clone)]
pub(crate) struct Keys {
    bases: Arc<[Vec<u8>]>,
    channel: Arc<[u8]>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("channel", &String::from_utf8_lossy(&self.channel)).finish_non_exhaustive()
    }
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Result<Self, OpenError> {
        if prefix.contains(['{', '}']) {
            let reason = "braces decide where a cluster keeps a key";
            return Err(OpenError::Prefix { prefix: prefix.to_owned(), reason });
        }
        let base = |bucket: usize| format!("{prefix}{{{bucket:02x}}}").into_bytes();
        Ok(Self { bases: (0..BUCKETS).map(base).collect(), channel: format!("{prefix}!").into_bytes().into() })
    }

    /// What all keys look like and no other: for `SCAN`.
    pub(crate) fn pattern(&self) -> Vec<u8> {
        let prefix = self.channel.strip_suffix(b"!").unwrap_or_default();
        let escaped =
            prefix.iter().flat_map(|byte| if b"*?[]\\^".contains(byte) { vec![b'\\', *byte] } else { vec![*byte] });
        escaped.chain(*b"{*").collect()
    }

    /// On which wake-ups are published.
    pub(crate) fn channel(&self) -> &[u8] {
        &self.channel
    }

    pub(crate) fn of(&self, id: &Id, name: &[u8]) -> Vec<u8> {
        self.in_bucket(usize::from(id.0[0]), name)
    }

    /// Of the bucket's highest version, and until when somebody waits.
    pub(crate) fn head(&self, id: &Id) -> Vec<u8> {
        self.of(id, b"h")
    }

    /// Never there.
    pub(crate) fn guard(&self, id: &Id) -> Vec<u8> {
        self.of(id, b"-")
    }

    pub(crate) fn in_bucket(&self, bucket: usize, name: &[u8]) -> Vec<u8> {
        join(self.bases.get(bucket).map_or(&[], Vec::as_slice), name, &[])
    }

    pub(crate) fn record(&self, id: &Id) -> Vec<u8> {
        join(self.bases.get(usize::from(id.0[0])).map_or(&[], Vec::as_slice), b"r", &id.0)
    }

    pub(crate) fn body(&self, body: BodyId) -> Vec<u8> {
        join(self.bases.get(usize::from(body.0[0])).map_or(&[], Vec::as_slice), b"b", &body.0)
    }
}

fn join(base: &[u8], name: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(base.len() + name.len() + rest.len());
    key.extend_from_slice(base);
    key.extend_from_slice(name);
    key.extend_from_slice(rest);
    key
}
