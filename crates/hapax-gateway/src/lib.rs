//! The gateway: a reverse proxy in which a request with an idempotency key happens once.
pub mod framing;
