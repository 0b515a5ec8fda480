//! The gateway: a reverse proxy in which a request with an idempotency key happens once.

mod body;
pub mod framing;
pub mod inbound;
pub mod outbound;
