use serde::Serialize;
use serde_json::Value;

use super::canonical;
use super::fingerprint::{Fingerprint, Scheme};
use super::frame::{Gathered, Hasher, Sink};
use super::secret::Secret;
use crate::sha::{Hmac, Sha256};

/// Takes fingerprints, keyed when the store has a secret.
///
/// Plain and keyed digests carry different schemes, so a record is only ever compared with its own kind.
#[derive(Clone, Debug, Default)]
pub struct Printer {
    secret: Option<Secret>,
}

impl Printer {
    /// Plain SHA-256: for stores whose readers may know the bodies anyway.
    #[must_use]
    pub const fn plain() -> Self {
        Self { secret: None }
    }

    /// HMAC-SHA-256: whoever reads the store cannot guess bodies by trying.
    #[must_use]
    pub const fn keyed(secret: Secret) -> Self {
        Self { secret: Some(secret) }
    }

    /// Bytes as they are.
    #[must_use]
    pub fn of_bytes(&self, bytes: &[u8]) -> Fingerprint {
        self.print(Scheme::RAW_V1, |hash| hash.pour(bytes))
    }

    /// JSON as it came: the bytes and, where there is one, the canonical form.
    #[must_use]
    pub fn of_json_bytes(&self, json: &[u8]) -> Fingerprint {
        let raw = self.of_bytes(json);
        match canonical::to_vec(json) {
            Some(text) => self.add(raw, Scheme::CANONICAL_V1, |hash| hash.pour(&text)),
            None => raw,
        }
    }

    /// A JSON value. It has no bytes of its own, so only the canonical form is kept; it matches
    /// [`of_json_bytes`](Self::of_json_bytes) of any spelling. A value too deep to canonicalise is printed as serialised.
    #[must_use]
    pub fn of_json(&self, value: &Value) -> Fingerprint {
        self.of_text(value.to_string().as_bytes())
    }

    /// Anything serde can write as JSON.
    pub fn of_serialize<T: Serialize + ?Sized>(&self, value: &T) -> Result<Fingerprint, serde_json::Error> {
        serde_json::to_vec(value).map(|text| self.of_text(&text))
    }

    fn of_text(&self, json: &[u8]) -> Fingerprint {
        match canonical::to_vec(json) {
            Some(text) => self.print(Scheme::CANONICAL_V1, |hash| hash.pour(&text)),
            None => self.of_bytes(json),
        }
    }

    /// A fingerprint of one digest.
    pub(crate) fn print(&self, scheme: Scheme, write: impl FnOnce(&mut Digester)) -> Fingerprint {
        let mut digester = self.digester();
        write(&mut digester);
        Fingerprint::of(self.scheme(scheme), digester.finish())
    }

    /// The same fingerprint with one more digest.
    pub(crate) fn add(&self, print: Fingerprint, scheme: Scheme, write: impl FnOnce(&mut Digester)) -> Fingerprint {
        let mut digester = self.digester();
        write(&mut digester);
        print.with(self.scheme(scheme), digester.finish())
    }

    pub(crate) fn digester(&self) -> Digester {
        Gathered::new(match &self.secret {
            None => Either::Plain(Sha256::new()),
            Some(secret) => Either::Keyed(secret.start()),
        })
    }

    pub(crate) const fn scheme(&self, scheme: Scheme) -> Scheme {
        if self.secret.is_some() { scheme.keyed() } else { scheme }
    }
}

pub(crate) type Digester = Gathered<Either>;

/// SHA-256 or HMAC, whichever the printer uses.
pub(crate) enum Either {
    Plain(Sha256),
    Keyed(Hmac),
}

impl Sink for Either {
    fn pour(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(hash) => hash.pour(bytes),
            Self::Keyed(mac) => mac.pour(bytes),
        }
    }
}

impl Hasher for Either {
    fn digest(self) -> [u8; 32] {
        match self {
            Self::Plain(hash) => hash.digest(),
            Self::Keyed(mac) => mac.digest(),
        }
    }
}
