//! The rules at run time: the async engine over any store.
//!
//! The engine reads a record, lets the pure core decide, and swaps. Around that it gives what a process needs: the
//! gate in front, waiting for another's answer, leases that are kept while work runs, probes for what stayed unknown,
//! a sweeper, quotas, events. Clock and randomness are injected.

mod activity;
mod ambient;
mod beats;
mod begin;
mod beside;
mod call;
mod carry;
mod caught;
mod classify;
mod compensate;
mod content;
mod decide;
mod disown;
mod engine;
mod error;
mod events;
mod explain;
pub mod gate;
mod group;
mod guard;
mod house;
mod hunt;
mod in_place;
mod jobs;
mod join;
mod key_generator;
mod kinds;
mod lay_out;
mod leased;
mod memo;
mod once;
mod peek;
pub mod policy_file;
mod presets;
mod print;
mod probe;
mod quota;
mod recorded;
mod resolve;
mod scopes;
mod seen;
mod settings;
mod shadow;
mod stats;
mod steps;
mod sweeper;
mod ticket;
mod told;
mod tools;
mod within;

pub use activity::{
    Activity, ActivityError, ActivityStream, Answered, Carrier, Claimed, EffectState, NoAnswer, Outgoing, Performed,
    Place, Provider, ProviderError, Providers, RunEffect, StreamBegun, StreamClaimed, stream_broken, stream_end,
};
pub use ambient::{Entropy, EntropyError, SeededEntropy, SystemEntropy, SystemWallClock, WallClock};
pub use beats::{BeatError, BeatSession, Gathered, SessionBeat};
pub use begin::{Begun, Replayed};
pub use call::{Call, InScope, IntoTenant, OnSurface, Wait};
pub use classify::{Classified, Classify, Failure};
pub use compensate::{Compensations, NextInverse, Undo, UndoError, UnwindError, UnwindOptions, Unwound};
pub use decide::{Decision, Unprotected};
pub use engine::{Engine, EngineBuilder, Policies};
pub use error::{BuildError, EngineError, OnceError};
pub use events::{Events, Gap, Logged};
pub use explain::{Advice, Explanation, advice};
pub use group::{GroupError, GroupHandle, GroupView, Progress, Reported, Superseded, Turn};
pub use guard::{
    Admitted, DeadLetter, DeadLetters, Guard, GuardConfig, GuardError, HandlerError, InProgress, Judge, Judged,
    Message, NoProgress, Settle, Why,
};
pub use in_place::in_place;
pub use jobs::{JobError, Jobs};
pub use key_generator::{KeyGenerator, KeyGeneratorError};
pub use kinds::{Looked, Other};
pub use leased::Settled;
pub use memo::{MemoAnswer, MemoError, Memos};
pub use once::OnceDone;
pub use policy_file::{FileProblem, PolicyFileError, PolicyFileWarning};
pub use probe::{Certainty, Doubt, Found, Probe, Probed};
pub use quota::{Most, NoRoom};
pub use settings::Settings;
pub use shadow::{ShadowLog, WouldStop};
pub use stats::Stats;
pub use steps::Stepped;
pub use sweeper::{Sweeper, Swept};
pub use ticket::{Ticket, downstream_key};
pub use told::{KeyKind, Tally, Told};
pub use tools::{Tool, ToolDeclaration, ToolError};
pub use within::Within;
