//! What agents and workflows stand on: activities, tools, beats, memos, the bus guard, job submission.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod activities;
mod beats;
mod guard;
mod jobs;
mod memos;
mod providers;
mod refund;
#[path = "../support/mod.rs"]
mod support;
mod tools;
