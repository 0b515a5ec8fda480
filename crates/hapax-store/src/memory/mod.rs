//! The memory store: for tests and for work that may be forgotten with the process.
//!
//! Ids are spread over shards, each behind one lock; one counter gives all shards their versions, and it is only moved
//! under the lock of the shard that is written. So whoever reads the counter first and the shards afterwards sees every
//! version up to the number read, which is what makes the change feed complete.
//!
//! Nothing is dropped by itself when [`crate::Envelope::gone`] has passed: the sweeper finds such records by their
//! expiry and removes them with a swap, which is a change like any other. A removal leaves its version behind for the
//! late write window; after that the id reads as never written, and since the counter is shared by all ids no version
//! comes twice even then.

mod age;
mod bodies;
mod earliest;
mod place;
mod shard;
mod slot;
mod store;
mod tally;
mod watch;

pub use store::MemoryStore;
