use std::fmt;

use subtle::ConstantTimeEq;

/// 128 random bits that a caller brings to *begin*.
///
/// Fresh per begin, never derived, never stored by the caller for later: it is repeated only by a caller that has seen
/// no answer to it, and that is what makes a lost reply harmless.
#[derive(Clone, Copy)]
pub struct Nonce(pub [u8; 16]);

impl PartialEq for Nonce {
    fn eq(&self, other: &Self) -> bool {
        // As one number: byte by byte takes seven instructions each.
        u128::from_le_bytes(self.0).ct_eq(&u128::from_le_bytes(other.0)).into()
    }
}

impl Eq for Nonce {}

impl std::hash::Hash for Nonce {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever knows a nonce can act as its owner, so only enough of it is shown to tell two apart.
        write!(f, "Nonce({}…)", data_encoding::HEXLOWER.encode(&self.0[..3]))
    }
}

/// What an owner shows to act on its attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Token {
    pub attempt: u32,
    pub nonce: Nonce,
}

impl Token {
    /// The text form in which a token travels: `attempt.nonce`, the nonce in hexadecimal.
    #[must_use]
    pub fn to_text(self) -> String {
        format!("{}.{}", self.attempt, data_encoding::HEXLOWER.encode(&self.nonce.0))
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (attempt, nonce) = text.split_once('.')?;
        let nonce = data_encoding::HEXLOWER_PERMISSIVE.decode(nonce.as_bytes()).ok()?;
        Some(Self { attempt: attempt.parse().ok()?, nonce: Nonce(nonce.try_into().ok()?) })
    }
}
