//! The queue, accident by accident. One binary, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test that was told something else stops there")]
#![allow(unreachable_pub, reason = "one binary of several files")]
#![allow(clippy::disallowed_methods, reason = "real processes and servers take real time")]

mod basics;
mod cases;
mod compacting;
mod crashes;
mod crowd;
mod expired;
mod gate;
mod histories;
mod keys;
mod killed;
mod log;
mod reload;
mod scheduler;
mod slow;
mod stores;
mod support;
mod worker;
