//! One contract, many stores: the trait, the record codec, the memory store, the faulty twin, the conformance suite.

mod clock;
pub mod codec;
pub mod conformance;
mod contract;
mod envelope;
mod error;
mod faulty;
mod memory;
mod seeded;
mod waiters;
pub mod wire;

pub use clock::{Clock, ManualClock, SystemClock};
pub use contract::{
    Answer, BodyInfo, BoxFuture, Change, Changes, Cursor, Durability, Index, Level, Page, Snapshot, Store, Swap, Usage,
    Watch,
};
pub use envelope::{Counted, Due, Entry, Envelope, Kind, List};
pub use error::StoreError;
pub use faulty::{Fault, FaultyStore, Injected, Landing, Odds, Plan};
pub use hapax_core::BodyId;
pub use memory::MemoryStore;
pub use seeded::Seeded;
pub use waiters::{Waiter, Waiters};
