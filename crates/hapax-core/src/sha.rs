//! SHA-256, and HMAC by it.
//!
//! Both are the same with and without the feature `ring`. RustCrypto's needs no C compiler and no operating system, and is as fast where the
//! processor has instructions for it; where it has none, ring's takes about half the time.

pub(crate) use made_by::{Hmac, HmacKey, Sha256};

/// Of bytes that are there already.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(bytes);
    hash.finish()
}

#[cfg(not(feature = "ring"))]
mod made_by {
    use hmac::{KeyInit, Mac};
    use sha2::Digest;

    pub(crate) struct Sha256(sha2::Sha256);

    impl Sha256 {
        pub(crate) fn new() -> Self {
            Self(sha2::Sha256::new())
        }

        pub(crate) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(crate) fn finish(self) -> [u8; 32] {
            self.0.finalize().into()
        }
    }

    /// A key that was taken in once.
    #[derive(Clone)]
    pub(crate) struct HmacKey(Hmac);

    impl HmacKey {
        /// Any bytes are a key; what tells of it may also say no.
        pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
            hmac::Hmac::new_from_slice(bytes).map(|mac| Self(Hmac(mac))).ok()
        }

        pub(crate) fn start(&self) -> Hmac {
            self.0.clone()
        }
    }

    #[derive(Clone)]
    pub(crate) struct Hmac(hmac::Hmac<sha2::Sha256>);

    impl Hmac {
        pub(crate) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(crate) fn finish(self) -> [u8; 32] {
            self.0.finalize().into_bytes().into()
        }
    }
}

#[cfg(feature = "ring")]
mod made_by {
    use ring::{digest, hmac};

    pub(crate) struct Sha256(digest::Context);

    impl Sha256 {
        pub(crate) fn new() -> Self {
            Self(digest::Context::new(&digest::SHA256))
        }

        pub(crate) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(crate) fn finish(self) -> [u8; 32] {
            whole(self.0.finish().as_ref())
        }
    }

    /// A key that was taken in once.
    #[derive(Clone)]
    pub(crate) struct HmacKey(hmac::Key);

    impl HmacKey {
        /// Any bytes are a key.
        #[allow(clippy::unnecessary_wraps, reason = "as RustCrypto has it")]
        pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
            Some(Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
        }

        pub(crate) fn start(&self) -> Hmac {
            Hmac(hmac::Context::with_key(&self.0))
        }
    }

    #[derive(Clone)]
    pub(crate) struct Hmac(hmac::Context);

    impl Hmac {
        pub(crate) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(crate) fn finish(self) -> [u8; 32] {
            whole(self.0.sign().as_ref())
        }
    }

    /// The digest's own type does not say how long it is.
    fn whole(digest: &[u8]) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What RustCrypto says, whoever makes ours.
    mod other {
        use hmac::{KeyInit, Mac};
        use sha2::Digest;

        pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
            sha2::Sha256::digest(bytes).into()
        }

        pub(super) fn hmac(key: &[u8], bytes: &[u8]) -> [u8; 32] {
            let mut mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(key).unwrap();
            mac.update(bytes);
            mac.finalize().into_bytes().into()
        }
    }

    /// A record that was written by a program with the one is read by a program with the other.
    #[test]
    fn all_implementations_say_the_same() {
        let text: Vec<u8> = (0..700_u32).map(|number| (number * 31 % 251) as u8).collect();
        for length in [0, 1, 31, 32, 55, 56, 63, 64, 65, 119, 120, 127, 128, 129, 256, 512, 700] {
            let (bytes, cut) = (&text[..length], length / 3);
            assert_eq!(sha256(bytes), other::sha256(bytes), "{length}");
            for key in [&text[..0], &text[..16], &text[..64], &text[..65], &text[..200]] {
                let mut mac = HmacKey::new(key).unwrap().start();
                mac.update(&bytes[..cut]);
                mac.update(&bytes[cut..]);
                assert_eq!(mac.clone().finish(), other::hmac(key, bytes), "{length}");
            }
        }
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(data_encoding::HEXLOWER.encode(&sha256(b"abc")), abc);
    }
}
