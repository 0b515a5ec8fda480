//! The canonical form of JSON (RFC 8785), straight from bytes to a digest.
//!
//! A payload guard has to forgive key order and white space and nothing else, on the path of every request. So no
//! tree is built: one pass over the bytes leaves a flat tape of spans (`tape`), each object's members are sorted as
//! indices into it, and the canonical text is written by copying spans of the input (`emit`). Only strings with
//! unusual escapes and numbers in an unusual spelling are rewritten.
//!
//! The answer is `None` ("compare raw bytes only") wherever two readers could see two different documents: invalid
//! JSON or UTF-8, duplicate members, lone surrogates, nesting deeper than [`MOST_DEPTH`].
//!
//! One deliberate step beyond RFC 8785: a number that a double cannot hold keeps its text (see `number`), because
//! rounding would make two different 64-bit ids one payload.

mod emit;
mod number;
mod order;
mod scan;
mod select;
mod string;
mod tape;
mod writer;

use super::pointer::Pointer;
use super::selection::Selection;
use crate::sha::sha256;
use tape::Tape;

/// Deeper nesting is not canonicalised. It is `serde_json`'s own limit, so nothing it can read is lost.
pub const MOST_DEPTH: usize = 128;

/// SHA-256 of the canonical form; `None` says that only the raw bytes may be compared.
#[must_use]
pub fn digest(json: &[u8]) -> Option<[u8; 32]> {
    to_vec(json).map(|text| sha256(&text))
}

/// The canonical form itself, for those who store or show it.
#[must_use]
pub fn to_vec(json: &[u8]) -> Option<Vec<u8>> {
    Tape::read(json).map(|tape| emit::document(&tape))
}

/// The canonical form of the part of a document that a [`Selection`] keeps.
///
/// With `fields` the result is an object from pointer text to value, absent fields left out: so a field that is
/// absent, null or somewhere else never reads as the same selection.
#[must_use]
pub fn selected_to_vec(json: &[u8], selection: &Selection) -> Option<Vec<u8>> {
    Tape::read(json).map(|tape| select::document(&tape, selection))
}

/// The canonical forms of single values, in the order of the pointers; `None` inside where there is no such value.
pub(crate) fn values(json: &[u8], pointers: &[Pointer]) -> Option<Vec<Option<Vec<u8>>>> {
    let tape = Tape::read(json)?;
    Some(pointers.iter().map(|pointer| select::single(&tape, pointer)).collect())
}
