//! Every test of this crate in one program: linking is most of what building tests costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod broken_stores;
mod codec_golden;
mod codec_kinds;
mod codec_properties;
mod codec_support;
mod codec_tasks;
mod codec_windows;
mod conformance_memory;
mod faulty;
mod memory;
mod memory_model;
