//! The rules of Hapax, and nothing else.
//!
//! No clock, no I/O, no async, no randomness: time and nonces are arguments.

pub mod identity;
