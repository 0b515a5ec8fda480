//! One contract, many stores: the trait, the record codec, the memory store, the faulty twin, the conformance suite.

pub mod codec;
mod contract;
mod envelope;
mod error;

pub use contract::{
    Answer, BodyInfo, BoxFuture, Change, Changes, Cursor, Durability, Index, Level, Page, Snapshot, Store, Swap, Usage,
    Watch,
};
pub use envelope::{Counted, Due, Entry, Envelope, Kind, List};
pub use error::StoreError;
pub use hapax_core::BodyId;
