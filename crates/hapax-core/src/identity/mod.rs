//! Who is asking for what: scopes, keys, recipes and fingerprints.
//!
//! Everything here is a pure function from labelled fields to bytes. Nothing is joined with a separator unless a
//! compatibility recipe demands exactly that, so two different tuples never meet in one id.

pub mod canonical;
mod fingerprint;
mod id;
mod pointer;
mod selection;

pub use fingerprint::{Fingerprint, Scheme};
pub use id::Id;
pub use pointer::{Pointer, PointerError};
pub use selection::Selection;
