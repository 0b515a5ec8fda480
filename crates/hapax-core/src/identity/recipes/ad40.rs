//! AD-40: keys that a client numbers itself, `client:sequence:nonce`.

use std::fmt;

use crate::identity::key::Key;

/// Why a text is not a client key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientKeyError {
    /// Fewer than three parts.
    #[error("the client key has fewer than three parts; write it as `client:sequence:nonce`")]
    TooFewParts,
    /// Without a client id two clients could meet.
    #[error("the client key's client id is empty; give every client a stable id")]
    NoClient,
    /// Signs and leading zeros would be second spellings of one key.
    #[error("the client key's sequence is not a plain decimal number; write it without sign or leading zeros")]
    BadSequence,
    /// Eight bytes, in one spelling.
    #[error("the client key's nonce is not 16 lower-case hexadecimal digits; send the eight random bytes as hex")]
    BadNonce,
}

/// `ad40.client`: who, the how-manieth, and random bytes that are new per start of the client.
///
/// Text and parts convert both ways without loss, so that one submission has one key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClientKey {
    client: String,
    sequence: u64,
    nonce: [u8; 8],
}

impl ClientKey {
    /// Puts the parts together. The nonce is eight random bytes, drawn once per start by the caller.
    pub fn new(client: &str, sequence: u64, nonce: [u8; 8]) -> Result<Self, ClientKeyError> {
        if client.is_empty() {
            return Err(ClientKeyError::NoClient);
        }
        Ok(Self { client: client.to_owned(), sequence, nonce })
    }

    /// Reads the text form from the right, so that a client id may hold colons (`host1.dc1:12345`).
    pub fn parse(text: &str) -> Result<Self, ClientKeyError> {
        let mut parts = text.rsplitn(3, ':');
        let (Some(nonce), Some(sequence), Some(client)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ClientKeyError::TooFewParts);
        };
        let plain = sequence == "0" || !sequence.starts_with(['0', '+', '-']);
        let sequence = sequence.parse().ok().filter(|_| plain).ok_or(ClientKeyError::BadSequence)?;
        Self::new(client, sequence, parse_nonce(nonce)?)
    }

    /// The stable client id.
    #[must_use]
    pub fn client(&self) -> &str {
        &self.client
    }

    /// The client's own count of submissions.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The random bytes of this start of the client.
    #[must_use]
    pub const fn nonce(&self) -> [u8; 8] {
        self.nonce
    }

    /// The key it stands for.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::made(self.to_string())
    }
}

/// Reads a nonce's hexadecimal form.
pub fn parse_nonce(text: &str) -> Result<[u8; 8], ClientKeyError> {
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).map_err(|_| ClientKeyError::BadNonce)?;
    bytes.try_into().map_err(|_| ClientKeyError::BadNonce)
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.client, self.sequence, data_encoding::HEXLOWER.encode(&self.nonce))
    }
}
