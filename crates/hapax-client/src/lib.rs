//! The client of the Hapax daemon.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hapax_client::{Client, Effect};
//!
//! let hapax = Client::new("http://127.0.0.1:7878")?.api_key("hx_…");
//! let done = hapax
//!     .operation("payments", "order-17")
//!     .request(&serde_json::json!({ "amount": 4200 }))
//!     .effect(Effect::Irreversible)
//!     .once(|ticket| async move {
//!         // Forward `ticket.downstream_key` to the provider here.
//!         Ok::<_, std::io::Error>(format!("charged, attempt {}", ticket.attempt))
//!     })
//!     .await?;
//! println!("{} (replayed: {})", done.value, done.replayed);
//! # Ok(())
//! # }
//! ```

pub mod agents;
mod client;
mod connection;
mod error;
mod once;
mod operation;
#[cfg(feature = "tls")]
mod tls;
mod wanted;
mod wire;

pub use client::Client;
pub use error::{Error, OnceError, Refusal};
pub use once::Done;
pub use operation::{Begun, Effect, Operation};
pub use wire::{Outcome, Replay, Stepped, Ticket};
