//! The exhaustive checker: the real rules, a compare-and-set cell, a few clients on one key, and everything that can go
//! wrong between them. Every reachable state is visited once and every invariant is looked at in each.
//!
//! A client does what an engine does for one call: begin, start, effect, report; after a time-out it asks again with
//! the same nonce or disowns. Any write can be lost, lose its reply, or stay on its way and land at any later moment if
//! the version still matches. A client can stop at any point and for any time, or for good. The lease lapses, windows
//! end, the sweeper passes, records are evicted, an operator decides, a probe looks, a newer epoch begins.

mod check;
pub mod config;
mod encode;
mod ghost;
mod search;
mod world;

pub use config::{Config, Size, configs};
pub use search::{Report, Violation, search};
