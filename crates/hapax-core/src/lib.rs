//! The rules of Hapax, and nothing else.
//!
//! No clock, no I/O, no async, no randomness: time and nonces are arguments. One total function, [`apply`], decides
//! what a state may become; stores, engine, simulator and model checker all run this same function.

pub mod activity;
pub mod beat;
pub mod claim;
pub mod command;
mod effect;
mod event;
pub mod group;
pub mod identity;
pub mod mark;
pub mod meaning;
pub mod memo;
mod outcome;
mod payload;
pub mod plan;
pub mod policy;
pub mod record;
mod rules;
mod sha;
pub mod task;
mod ties;
mod time;
mod token;
mod verdict;
mod version;

pub use command::{Command, Reply};
pub use effect::Effect;
pub use event::{Cause, Event};
pub use identity::{Fingerprint, Id, Tag};
pub use outcome::{Body, BodyId, Outcome, OutcomeClass, body_digest};
pub use payload::Payload;
pub use policy::{Policy, Preset};
pub use record::{Record, State, StateName};
pub use rules::{
    Current, Moment, Step, Waiting, Window, Windows, Write, apply, as_read, ending, final_answer, judge_waiter,
    kept_for, lease_end, window_end, windows,
};
pub use ties::{Compensation, CompensationInput, Honoured, Ties, group_tag};
pub use time::{Anchor, Millis, Span, Stamp, WallMillis};
pub use token::{Nonce, Token};
pub use verdict::{Grant, NextAction, Recorded, Refusal, RefusalReason, Replay, Verdict};
pub use version::{Fence, Version};
