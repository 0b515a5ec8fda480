//! What callers carry for us and must not read: places in the store name others' operations, and numbers count others'
//! events.

use std::fmt;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// Seals small texts under a key of the engine's, so that a cursor holds for another process on the same data too.
pub(crate) struct Seal(Option<LessSafeKey>);

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(…)")
    }
}

impl Seal {
    /// `key`: 32 bytes in hexadecimal.
    pub(crate) fn new(key: &str) -> Self {
        let key = HEXLOWER.decode(key.as_bytes()).ok();
        Self(key.and_then(|key| UnboundKey::new(&CHACHA20_POLY1305, &key).ok()).map(LessSafeKey::new))
    }

    /// `what` says what it is for and, where that matters, for whom: it opens for the same only.
    pub(crate) fn close(&self, what: &[&str], plain: &[u8]) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let key = self.0.as_ref()?;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad(what), &mut sealed).ok()?;
        Some(BASE64URL_NOPAD.encode(&[&nonce[..], &sealed].concat()))
    }

    /// `None`: it was not sealed here, or for something else.
    pub(crate) fn open(&self, what: &[&str], text: &str) -> Option<Vec<u8>> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain = self.0.as_ref()?.open_in_place(nonce, aad(what), &mut sealed).ok()?;
        Some(plain.to_vec())
    }
}

/// Each part with its length, so that no two lists look alike.
fn aad(what: &[&str]) -> Aad<Vec<u8>> {
    let mut all = Vec::new();
    for part in what {
        all.extend_from_slice(&(part.len() as u64).to_be_bytes());
        all.extend_from_slice(part.as_bytes());
    }
    Aad::from(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_for_the_same_and_for_nobody_else() {
        let seal = Seal::new(&"ab".repeat(32));
        let text = seal.close(&["list", "acme"], b"a place").unwrap();
        assert_eq!(seal.open(&["list", "acme"], &text).unwrap(), b"a place");
        assert!(seal.open(&["list", "globex"], &text).is_none());
        assert!(seal.open(&["lista", "cme"], &text).is_none());
        assert!(Seal::new(&"cd".repeat(32)).open(&["list", "acme"], &text).is_none());
        let mut changed = text.into_bytes();
        changed[20] ^= 1;
        assert!(seal.open(&["list", "acme"], &String::from_utf8(changed).unwrap()).is_none());
        for bad in ["", "AAAA", "%", &"A".repeat(1000)] {
            assert!(seal.open(&["list", "acme"], bad).is_none());
        }
    }
}
