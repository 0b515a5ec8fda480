//! The daemon as a library: the API, authentication, the audit log, metrics and the operator's page over one engine.
//!
//! ```no_run
//! # async fn run(engine: hapax_engine::Engine) -> Result<(), Box<dyn std::error::Error>> {
//! let server = hapax_server::Server::builder(engine).build()?;
//! server.serve(tokio::net::TcpListener::bind("127.0.0.1:7878").await?).await?;
//! # Ok(())
//! # }
//! ```

mod a2a;
mod agents;
mod api;
mod app;
pub mod audit;
mod auth;
mod counted;
mod endpoint;
mod http;
mod limits;
mod log;
mod metrics;
mod once;
mod openapi;
mod page;
mod problem;
mod records;
mod reload;
mod seal;
mod server;
mod tickets;
mod trace;
mod trouble;
pub mod wire;
mod words;

/// What travels to and from the queue.
pub use a2a::{SCHEDULER_CAPABILITY, wire as queue_wire};
pub use auth::{ApiKey, Auth, Capability, Identity, KeyError, KeyFile, Keys, Role, generate_key, hash_key};
pub use hapax_http1::{Crew, listening};
pub use limits::Limits;
pub use log::{Format, Level, Log};
pub use metrics::Gauge;
pub use problem::{Next, Problem};
pub use reload::{Done, Reload, Reloader, Reloads, reloads};
pub use server::{Server, ServerBuilder, ServerError, fit_for_queue};
pub use trace::{Exporter, TraceError, Traced, Tracer};
pub use words::time as wall_time;

/// The OpenAPI document, as served at `/openapi.json` to tenants; at the administrators' door there is more in it.
#[must_use]
pub fn openapi_document() -> serde_json::Value {
    openapi::document(false)
}
