//! Idempotency for any HTTP service: a tower layer, and below it the steps it is made of.
//!
//! The layer reads the key, fingerprints the request, begins, runs the handler or gives the recorded answer again. Five
//! dialects say how that looks on the wire.

mod caller;
mod dialect;
mod guard;
mod headers;
mod key;
mod mark;
mod problem;
mod replay;
mod resolved;
mod rules;

pub use caller::Caller;
pub use dialect::Dialect;
pub use guard::{Answer, Asked, Asking, Begin, Cut, Guard, Look, Peek, Running, Streaming};
pub use mark::{Deferred, Mark, Operation, Streamed};
pub use problem::{Code, NextStep, Problem};
pub use rules::{Authorize, KeysPer, Limits, Permit, Replaying, Rules, RulesError};
