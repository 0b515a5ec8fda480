//! Hapax on PostgreSQL.
//!
//! One table with one row an id, one prepared statement a call, one round trip for a first begin, for a duplicate and for
//! a completion. The statements compare versions and move bytes; the rules stay in `hapax-core`.
//!
//! ```no_run
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let store = hapax_postgres::PostgresStore::open("postgres://localhost/app").await?;
//! println!("{}", hapax_store::Store::durability(&store));
//! # Ok(()) }
//! ```
//!
//! For effects in the same database, [`Transactional`] commits the effect and its record together, or neither, in a
//! transaction of `tokio_postgres` or, with the feature `sqlx`, of that.

mod address;
mod bodies;
mod driver;
mod durability;
mod erase;
mod error;
mod feed;
mod migrate;
mod options;
mod pool;
mod row;
mod scan;
mod statement;
mod store;
mod tls;
mod transactional;
mod watch;
#[cfg(feature = "sqlx")]
pub mod with_sqlx;

pub use driver::{Cell, Column, Driver, Param};
pub use erase::erase;
pub use error::OpenError;
pub use options::Options;
pub use store::PostgresStore;
pub use transactional::{Deed, Entered, TransactionError, Transactional};
