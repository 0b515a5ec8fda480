//! The embedded durable store of Hapax: one append-only log is the store and the change feed.
//!
//! A writer thread takes what has queued, writes it as one checksummed frame, syncs once, and only then lets anybody
//! know. `docs/ledger-format.md` has the bytes, the commit protocol, the argument why it is right, and what is assumed
//! about the disk.

#[doc(hidden)]
pub mod any_bytes;
mod append;
mod aside;
mod beginning;
mod bodies;
mod books;
mod check;
mod clean;
mod clock;
mod direct;
#[doc(hidden)]
pub mod disk;
mod entry;
mod error;
mod feed;
mod frame;
mod front;
mod hands;
mod hint;
mod index;
mod journal;
mod keeper;
mod ledger;
mod letterbox;
mod lock;
mod log;
mod meta;
mod options;
mod pace;
mod patience;
mod poison;
mod queue;
mod raw;
mod recover;
mod repair;
mod scan;
mod scarcity;
mod segment;
mod shard;
mod shared;
mod shelf;
mod slot;
mod stepper;
mod sudden_end;
mod table;
#[doc(hidden)]
pub mod testing;
mod walk;
mod watchers;
mod writer;

#[doc(hidden)]
pub use check::check_on;
pub use check::{Damage, Report, check};
pub use clock::{Clock, SinceBoot, SystemClock};
pub use error::OpenError;
pub use ledger::{Ledger, Status};
pub use letterbox::{awaited_here, deliver};
pub use options::Options;
#[doc(hidden)]
pub use raw::RawLog;
pub use recover::{Recovered, is_ledger, is_name_of_a_file};
pub use repair::repair;
#[doc(hidden)]
pub use repair::repair_on;
#[doc(hidden)]
pub use stepper::{KeeperSteps, Stepper, WriterSteps};
