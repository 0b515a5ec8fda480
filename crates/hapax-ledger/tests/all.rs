//! Every test of this crate in one program: linking is most of what building tests costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod accidents;
mod agents;
mod beginning;
mod bodies;
mod bytes;
mod common;
mod conformance;
mod crash_images;
mod damage;
mod faults;
mod full_disk;
mod golden;
mod killed;
mod model;
mod one_thread;
mod passed_over;
mod real_disk;
mod schedule_support;
mod schedules;
mod space;
mod stopped_anywhere;
mod sudden_end;
mod time;
mod whole_blocks;
