//! Real processes and raw sockets: what a polite client library would not send, and what a mock would not get wrong.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test binary uses its part")]
#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

mod client;
pub mod command;
mod daemon;
pub mod http2;
mod process;
pub mod stores;
mod upstream;

pub use client::{Answer, Conn, get, keyed, post, request};
pub use daemon::Daemon;
pub use process::{Dir, Gateway, Start};
pub use upstream::{Asked, Reply, Upstream};

use std::time::{Duration, Instant};

/// Waits for a condition; the machine may be slow, so the limit is far off.
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    within(Duration::from_secs(20), what, condition);
}

pub fn within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
