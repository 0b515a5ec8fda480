//! The gateway: a reverse proxy in which a request with an idempotency key happens once.
//!
//! ```text
//!   client ─► inbound ──► gateway ── peek ─────────────────────────► the recorded answer
//!             (limits,       │
//!              framing)      └─ connection ─ begin ─ send ─ record ─► the upstream's answer
//! ```

mod body;
mod buffered;
pub mod config;
mod execute;
mod forward;
mod gateway;
mod host;
pub mod inbound;
mod networks;
pub mod outbound;
mod outlive;
mod pass;
mod path;
mod pattern;
mod quiet;
mod reauthorize;
mod refusal;
mod request_body;
mod response_body;
mod resumed;
mod route;
mod routing;
mod setup;
mod tenant;
mod timed;
mod trouble;
mod upload;
mod upstream_request;

pub use config::{Config, SetupError};
pub use gateway::{Gateway, Notice};
pub use networks::Networks;
pub use pattern::Pattern;
pub use route::HostHeader;
pub use setup::Setup;
pub use tenant::{Credential, Jwks, JwksError, Whose};
