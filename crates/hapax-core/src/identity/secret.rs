use std::fmt;

use super::frame::{Gathered, Sink};
use super::key::Key;
use crate::sha::{Hmac, HmacKey};

/// A secret cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// A short secret can be guessed, and then keyed digests of short keys can be reversed.
    #[error("the secret has {len} bytes and needs at least {least}; generate one from random bytes")]
    TooShort { len: usize, least: usize },
}

/// The store's secret. With it digests are HMACs, so that whoever reads the store cannot guess keys and bodies.
///
/// It holds the keyed state rather than the bytes, so that no request pays for the key schedule again.
#[derive(Clone)]
pub struct Secret(HmacKey);

impl Secret {
    /// Sixteen bytes is the least that cannot be tried through.
    pub const LEAST_BYTES: usize = 16;

    /// Takes the secret's bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretError> {
        let short = SecretError::TooShort { len: bytes.len(), least: Self::LEAST_BYTES };
        if bytes.len() < Self::LEAST_BYTES {
            return Err(short);
        }
        HmacKey::new(bytes).map(Self).ok_or(short)
    }

    /// The start of an HMAC under this secret.
    pub(crate) fn start(&self) -> Hmac {
        self.0.start()
    }

    /// What logs and pages show instead of a key: the same for the same key, and of no use to a reader.
    #[must_use]
    pub fn short_hash(&self, key: &Key) -> String {
        data_encoding::HEXLOWER.encode(&self.short_digest(key))
    }

    /// A digest of labelled parts under this secret, in hexadecimal: for what is compared again and must not be read,
    /// such as a credential. `purpose` keeps digests for different ends apart.
    #[must_use]
    pub fn digest_of(&self, purpose: &str, parts: &[(&[u8], &[u8])]) -> String {
        let mut mac = Gathered::new(self.start());
        // Each part with its length, so that no two lists look alike.
        let mut add = |bytes: &[u8]| {
            mac.pour(&(bytes.len() as u64).to_be_bytes());
            mac.pour(bytes);
        };
        add(purpose.as_bytes());
        for (label, value) in parts {
            add(label);
            add(value);
        }
        data_encoding::HEXLOWER.encode(&mac.finish())
    }

    /// What tells this secret from any other, without giving it away.
    #[must_use]
    pub fn digest(&self, purpose: &str) -> [u8; 32] {
        let mut mac = self.start();
        mac.update(&(purpose.len() as u64).to_be_bytes());
        mac.update(purpose.as_bytes());
        mac.finish()
    }

    /// The bytes behind [`Secret::short_hash`].
    #[must_use]
    pub fn short_digest(&self, key: &Key) -> [u8; 8] {
        let mut mac = self.start();
        mac.update(b"hapax.short.v1\0");
        mac.update(key.as_str().as_bytes());
        let digest: [u8; 32] = mac.finish();
        let mut short = [0; 8];
        short.copy_from_slice(&digest[..8]);
        short
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
