//! The rules at run time: the async engine over any store.
//!
//! The engine reads a record, lets the pure core decide, and swaps. Around that it gives what a process needs: the
//! gate in front, waiting for another's answer, leases that are kept while work runs, probes for what stayed unknown,
//! a sweeper, quotas, events. Clock and randomness are injected.

mod ambient;
mod begin;
mod call;
mod carry;
mod classify;
mod decide;
mod compensate;
mod disown;
mod engine;
mod error;
mod events;
mod group;
mod explain;
pub mod gate;
mod join;
mod key_generator;
mod leased;
mod kinds;
mod once;
mod peek;
pub mod policy_file;
mod print;
mod probe;
mod quota;
mod resolve;
mod seen;
mod settings;
mod shadow;
mod stats;
mod steps;
mod sweeper;
mod ticket;

pub use ambient::{Entropy, EntropyError, SeededEntropy, SystemEntropy, SystemWallClock, WallClock};
pub use begin::{Begun, Replayed};
pub use call::{Call, InScope, IntoTenant, OnSurface, Wait};
pub use classify::{Classified, Classify, Failure};
pub use decide::{Decision, Unprotected};
pub use compensate::{Compensations, Undo, UndoError, UnwindError, UnwindOptions, Unwound};
pub use engine::{Engine, EngineBuilder, Policies};
pub use error::{BuildError, EngineError, OnceError};
pub use events::{Events, Gap, Logged};
pub use explain::{Advice, Explanation};
pub use group::{GroupError, GroupHandle, GroupView, Progress, Reported, Superseded, Turn};
pub use key_generator::{KeyGenerator, KeyGeneratorError};
pub use leased::Settled;
pub use once::OnceDone;
pub use policy_file::{FileProblem, PolicyFileError, PolicyFileWarning};
pub use probe::{Certainty, Doubt, Found, Probe, Probed};
pub use settings::Settings;
pub use shadow::{ShadowLog, WouldStop};
pub use stats::Stats;
pub use steps::Stepped;
pub use sweeper::{Sweeper, Swept};
pub use ticket::{Ticket, downstream_key};
