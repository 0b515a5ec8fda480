//! Every test of this crate over connections, in one program: linking is most of what building tests costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod answers;
mod bodies;
mod broken_answers;
mod expecting;
mod hidden;
mod leaving;
mod long_answers;
mod pieces;
mod rest;
mod slow;
mod slow_readers;
mod stopping;
mod support;
mod trailers;
