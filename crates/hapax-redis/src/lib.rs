//! Hapax on Redis or Valkey: one server, one that Sentinels watch, or a cluster.
//!
//! One key a record, in 256 buckets that each lie in one slot of a cluster; one short script for compare-and-set, which
//! compares versions and moves bytes, and notes in the head of the bucket what its indexes have to learn. The rules stay in
//! `hapax-core`.
//!
//! ```no_run
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let store = hapax_redis::RedisStore::open("redis://localhost/").await?;
//! println!("{}", hapax_store::Store::durability(&store));
//! # Ok(()) }
//! ```
//!
//! What lies where, `P` being the key prefix and `bb` the first byte of the id in hexadecimal:
//!
//! | key | what |
//! |---|---|
//! | `P{bb}r` + id | a record: version, stamp, dues, tags, envelope; or version and stamp of its removal |
//! | `P{bb}h` | the head: the highest version given out in this bucket, until when somebody waits, ids to be settled |
//! | `P{bb}f` | the feed: ids by version |
//! | `P{bb}l`, `e`, `d` | ids by end of lease, by expiry, in doubt |
//! | `P{bb}t` + tag | ids of one tenant by version |
//! | `P{bb}g` + tag, `q` + tag | members of a group, of a queue |
//! | `P{bb}u` | how many records and tombstones each tag has |
//! | `P{bb}x`, `z` | removals to be forgotten; the highest version that the feed has forgotten |
//! | `P{bb}w` | who is waited for |
//! | `P{bb}b` + body, `B` | bodies, and the list of them |

mod address;
mod batch;
mod bodies;
mod cluster;
mod durability;
mod error;
mod feed;
mod invocation;
mod keys;
mod link;
mod options;
mod place;
mod reach;
mod rights;
mod scan;
mod script;
mod servers;
mod settle;
mod slot;
mod store;
mod swaps;
mod value;
mod watch;

pub use error::OpenError;
pub use options::Options;
pub use store::RedisStore;
