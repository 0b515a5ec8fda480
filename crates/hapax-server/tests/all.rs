//! Every test of this crate in one program: linking is most of what building tests costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod a2a;
mod a2a_many;
mod agents;
mod agents_bus;
mod agents_client;
mod api;
mod audit;
mod books;
mod client_once;
mod client_streams;
mod jobs;
mod keys;
mod leaving;
mod limits;
mod metrics;
mod neighbours;
mod once;
mod strangers;
mod support;
