//! The rules of Hapax, and nothing else.
//!
//! No clock, no I/O, no async, no randomness: time and nonces are arguments.

pub mod identity;
mod time;
mod token;
mod version;

pub use identity::{Fingerprint, Id, Tag};
pub use time::{Anchor, Millis, Span, Stamp, WallMillis};
pub use token::{Nonce, Token};
pub use version::{Fence, Version};
