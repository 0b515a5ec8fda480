//! Every test of this crate in one program: linking is most of what building tests costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod accidents;
mod agents;
mod cluster;
mod common;
mod conformance;
mod listening;
mod model;
