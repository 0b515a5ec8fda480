//! What agents and workflows ask a daemon for: groups and turns, activities and streams, tools, beats, memos, compensation,
//! jobs.

mod activity;
mod beat;
mod group;
mod job;
mod memo;
mod saga;
mod stream;

pub use activity::{Activity, Answer, Claimed, Outgoing, RunEffect};
pub use beat::{Beat, Found, Gathered, Session};
pub use group::{Group, GroupView, Reported, Superseded, Turn};
pub use job::{JobEnd, JobView};
pub use memo::{Dependencies, Input, MemoAnswer, Memos};
pub use saga::{Inverse, Next, Plan, PlanStep};
pub use stream::{Stream, StreamAgain, StreamBegun, StreamEnd};

use data_encoding::HEXLOWER;

use crate::error::Error;

/// Fresh for each request, the same in every repetition of it.
pub(crate) fn fresh_nonce() -> Result<String, Error> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(|error| Error::Unexpected(error.to_string()))?;
    Ok(HEXLOWER.encode(&nonce))
}
