use std::sync::Arc;

use crate::{Outcome, record::StateName};

/// Why a transition happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Cause {
    Begin,
    /// The same nonce came back.
    BeginAgain,
    TakeOver,
    Start,
    Renew,
    Complete,
    Reject,
    Fail,
    FailUnknown,
    Release,
    Unstart,
    Disown,
    Resolve,
    ClaimProbe,
    /// A lease ran out.
    Lapse,
    /// A retention ended.
    Expire,
    Evict,
    /// The group that kept it is done.
    LetGo,
    /// An outcome came from a token that no longer counts.
    Fenced,
    /// A begin was answered without running.
    Replay,
    InFlight,
    Mismatch,
    InDoubt,
    Refused,
    WindowClosed,
}

/// One transition, or one answer worth seeing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub cause: Cause,
    pub from: StateName,
    pub to: StateName,
    pub attempt: u32,
    /// Taken although it came after the lapse.
    pub late: bool,
    /// The lapse or expiry had not been written down; this transition did it on the way.
    pub found_lapsed: bool,
    /// The request differed from the recorded one and was let through by policy.
    pub mismatch_observed: bool,
    /// An outcome that was refused and has no record to be kept with: this event is all that is left of it. A long body
    /// leaves its digest.
    pub refused: Option<Arc<Outcome>>,
}
