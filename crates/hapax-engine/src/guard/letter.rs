use std::fmt;

use hapax_store::BoxFuture;

use super::Message;

/// Why a message is put aside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// Its intent was used for another message.
    Mismatch,
    /// Its handler cannot read it.
    Undecodable(String),
    /// It cannot be told from others: its intent is no usable key.
    Unusable(String),
    /// Its handler failed for good.
    Failed(String),
    /// Whether it was handled is unknown, and it will not be delivered again.
    InDoubt,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch => f.write_str("its intent was used for another message"),
            Self::Undecodable(why) => write!(f, "it cannot be read: {why}"),
            Self::Unusable(why) => write!(f, "its intent cannot be used: {why}"),
            Self::Failed(why) => write!(f, "its handler failed for good: {why}"),
            Self::InDoubt => f.write_str("whether it was handled is unknown"),
        }
    }
}

/// A message that nobody will deliver again, for a person to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    pub consumer: String,
    pub message: Message,
    pub why: Why,
}

/// Where dead letters go. Durable before it answers; the same letter may come twice.
pub trait DeadLetters: Send + Sync {
    fn put(&self, letter: DeadLetter) -> BoxFuture<'_, Result<(), String>>;
}
