//! Hapax on NATS: JetStream key-value, at level *basic*.
//!
//! One message a record; a version is the message's sequence in its stream, which never repeats. A write names the
//! sequence it expects, and the server compares. Reads go to the stream's leader. The rules stay in `hapax-core`.
//!
//! ```no_run
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let store = hapax_nats::NatsStore::open("nats://localhost/hapax").await?;
//! println!("{}", hapax_store::Store::durability(&store));
//! # Ok(()) }
//! ```
//!
//! What lies where, `B` being the bucket:
//!
//! | stream | subject | what |
//! |---|---|---|
//! | `KV_B` | `$KV.B.r.` + id | a record: its index entries in a header, its envelope; or the mark of its removal |
//! | `KV_B` | `$KV.B.forgotten` | up to which sequence removals were forgotten, in a header |
//! | `KV_B-bodies` | `$KV.B-bodies.` + body + `.h`, `.0`, `.1`, … | a body: what it is, and its pieces |
//! | `KV_B-bodies` | `$KV.B-bodies.` + part + `.p`, `.0`, `.1`, … | the envelope of a record that is too long for one message |
//! | `KV_B-bodies` | `$KV.B-bodies.clock.` + n | read for the time that the server has given it |
//!
//! NATS keeps no index, so each process that scans, counts or waits follows the stream by one ordered consumer that is
//! sent headers only, and keeps the index in its own memory: about 250 bytes a record. Before it answers it asks for the
//! last sequence and waits until it has come that far.
//!
//! A read does not say what time it is. The store takes its time from the stamps that the server gives to messages,
//! knows how far it may be off ([`NatsStore::clock_error`]), and writes its estimate into each record.

mod address;
mod api;
mod bodies;
mod bucket;
mod clock;
mod durability;
mod error;
mod feed;
mod follow;
mod forget;
mod head;
mod index;
mod link;
mod names;
mod options;
mod pieces;
mod record;
mod scan;
mod shared;
mod stamps;
mod store;
mod sweep;

pub use error::OpenError;
pub use options::Options;
pub use store::NatsStore;
