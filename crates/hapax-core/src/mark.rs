//! What all processes on one store must have in common, written down by the first of them.
//!
//! Two processes with different secrets make different tenants of one credential: the same key would run once in each.
//! The mark is a digest, so that whoever reads the store cannot learn the secret from it.

/// A digest of the secret, as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(pub [u8; 32]);

/// What a mark says about one's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Marked {
    Same,
    /// Those who came before have another.
    Other,
}

/// Compares one's own mark with the store's; what is to be written comes first.
pub fn apply_mark(held: Option<&Mark>, ours: Mark) -> (Option<Mark>, Marked) {
    match held {
        None => (Some(ours), Marked::Same),
        Some(held) if *held == ours => (None, Marked::Same),
        Some(_) => (None, Marked::Other),
    }
}
