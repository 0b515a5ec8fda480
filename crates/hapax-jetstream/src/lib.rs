//! The bus guard on NATS JetStream: at least once in, once handled.
//!
//! A pull consumer hands over deliveries; the guard of `hapax-engine` decides by its record what becomes of each; this crate
//! carries the answer back. It acknowledges a message only once its outcome is recorded, so a crash at any point leads to
//! another delivery and never to a second handling.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use async_nats::jetstream::{self, consumer::{PullConsumer, pull}};
//! use hapax_core::Effect;
//! use hapax_engine::Engine;
//! use hapax_jetstream::{DeadLetterSubject, Guarded, Options};
//!
//! # async fn doc(engine: Engine) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let bus = jetstream::new(async_nats::connect("localhost").await?);
//! let config = pull::Config { durable_name: Some("mailer".into()), max_deliver: 20, ..Default::default() };
//! let consumer: PullConsumer = bus.get_stream("ORDERS").await?.get_or_create_consumer("mailer", config).await?;
//!
//! let letters = DeadLetterSubject::new(bus, "dead.orders.mailer");
//! let options = Options::new(Effect::Irreversible);
//! let guarded = Guarded::new(&engine, "acme", consumer, Arc::new(letters), options)?;
//! guarded
//!     .run(8, |message| async move {
//!         println!("mail for {:?}", message.payload);
//!         Ok(())
//!     }, std::future::pending())
//!     .await;
//! # Ok(()) }
//! ```

mod delivery;
mod error;
mod guarded;
mod letters;
mod options;
mod run;

pub use error::SetupError;
pub use guarded::Guarded;
pub use letters::DeadLetterSubject;
pub use options::Options;
