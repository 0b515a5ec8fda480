//! Every test of this crate in one program: linking is most of what building tests costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod agents;
mod bytes;
mod cancelled;
mod capacity;
mod cases;
mod content;
mod crowd;
mod doubt;
mod finishing;
mod gate;
mod histories;
mod invariants;
mod joining;
mod key_generator;
mod lease;
mod once;
mod policy_file;
mod selection;
mod shared_store;
mod stories;
mod support;
mod watching;
