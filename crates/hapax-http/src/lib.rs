//! Idempotency for any HTTP service: a tower layer, and below it the steps it is made of.
//!
//! The layer reads the key, fingerprints the request, begins, runs the handler or gives the recorded answer again. Five
//! dialects say how that looks on the wire.

mod body;
mod caller;
mod dialect;
mod guard;
mod headers;
mod key;
mod layer;
mod mark;
mod now_and_then;
mod pieces;
mod problem;
mod pump;
mod replay;
mod resolved;
mod rules;
mod stream;

pub use body::{BodyError, RequestBody, ResponseBody};
pub use caller::{ActivityOf, Caller};
pub use dialect::Dialect;
pub use guard::{Answer, Asked, Asking, Begin, Cut, Guard, Lease, Look, Peek, Running, Streaming, mark_unprotected};
pub use headers::is_never_stored;
pub use layer::{Layer, ResponseFuture, Service};
pub use mark::{Deferred, Mark, Operation, Streamed};
pub use now_and_then::NowAndThen;
pub use pieces::Pieces;
pub use problem::{Code, NextStep, Problem};
pub use pump::Pumped;
pub use rules::{Authorize, KeysPer, Limits, May, Permit, Replaying, Rules, RulesError};
pub use stream::is_stream;
