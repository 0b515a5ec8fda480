//! Length-prefixed frames: how tuples become bytes before they are hashed.
//!
//! Joining with a separator lets a value that holds the separator shift the border (`a:b` + `c` reads as `a` +
//! `b:c`). A frame says its length first, so a sequence of frames can be read back in one way only, and different
//! tuples have different bytes.

use crate::sha::{Hmac, Sha256};

/// Anything bytes can be poured into: a hasher in production, a vector where tests look at the encoding itself.
pub(crate) trait Sink {
    fn pour(&mut self, bytes: &[u8]);

    /// One value: its length in eight bytes, little end first, and its bytes.
    #[inline]
    fn frame(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.pour(bytes);
    }

    /// A count or number of fixed width; needs no length of its own.
    #[inline]
    fn number(&mut self, number: u64) {
        self.pour(&number.to_le_bytes());
    }
}

impl Sink for Vec<u8> {
    fn pour(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for Sha256 {
    fn pour(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

impl Sink for Hmac {
    fn pour(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

/// What makes a digest of the bytes that were poured into it.
pub(crate) trait Hasher: Sink {
    fn digest(self) -> [u8; 32];
}

impl Hasher for Sha256 {
    fn digest(self) -> [u8; 32] {
        self.finish()
    }
}

impl Hasher for Hmac {
    fn digest(self) -> [u8; 32] {
        self.finish()
    }
}

/// SHA-256 over a domain tag and whatever `write` frames after it. Every use has its own tag, so that equal fields
/// of two kinds of thing never meet in one digest.
pub(crate) fn tagged(domain: &str, write: impl FnOnce(&mut Gathered<Sha256>)) -> [u8; 32] {
    let mut gathered = Gathered::new(Sha256::new());
    gathered.frame(domain.as_bytes());
    write(&mut gathered);
    gathered.finish()
}

/// Enough for the id of most operations.
const HELD: usize = 256;

/// Frames are many and short; a hasher works by blocks. So they are gathered before it sees them.
pub(crate) struct Gathered<H> {
    hash: H,
    held: [u8; HELD],
    len: usize,
}

impl<H: Hasher> Gathered<H> {
    pub(crate) const fn new(hash: H) -> Self {
        Self { hash, held: [0; HELD], len: 0 }
    }

    fn flush(&mut self) {
        self.hash.pour(&self.held[..self.len]);
        self.len = 0;
    }

    pub(crate) fn finish(mut self) -> [u8; 32] {
        self.flush();
        self.hash.digest()
    }
}

impl<H: Hasher> Sink for Gathered<H> {
    // Most of what is poured has a length that is known where this is called.
    #[inline]
    fn pour(&mut self, bytes: &[u8]) {
        if bytes.len() > HELD - self.len {
            self.flush();
        }
        match self.held.get_mut(self.len..self.len + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.hash.pour(bytes),
        }
    }
}
