//! What agents and workflows stand on, as far as it hangs on no store: providers, the bus guard, job submission. The rest
//! is `stories.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod guard;
mod jobs;
mod policies;
mod providers;
#[path = "../support/mod.rs"]
mod support;
