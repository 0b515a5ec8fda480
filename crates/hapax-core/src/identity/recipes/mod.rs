//! The rules behind the named recipes, one file per origin. [`Recipe`](super::Recipe) finds them by name; Rust callers
//! use these functions directly.
//!
//! The native ones frame every field with its length. The others reproduce, byte for byte, the strings that existing
//! systems have already stored, with the weaknesses those have; each says which.

pub mod acf;
pub mod ad40;
pub mod cordum;
pub mod native;
pub mod openwop;
mod python_json;

use crate::sha::sha256;

/// Lower-case hexadecimal SHA-256, which most of the compatibility recipes end in.
fn hex_sha256(text: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&sha256(text))
}
