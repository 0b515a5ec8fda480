//! The answers to *begin*.

use std::{fmt, sync::Arc};

use crate::{Millis, Outcome, Stamp, Token, Version, WallMillis};

/// The right to run one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    pub token: Token,
    pub lease: Millis,
    /// `None`: the version of the write that this verdict asks for.
    pub fence: Option<Version>,
}

/// A recorded answer, given again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    pub answer: Recorded,
    pub rejected: bool,
    pub decided_wall: WallMillis,
    /// When it stops being replayed, on the store's clock.
    pub expires: Option<Stamp>,
    pub attempt: u32,
    /// The principal that asked first, within the tenant. Whose answer it is goes with the answer, so that nobody shows
    /// one without knowing.
    pub asked_first: Option<Arc<str>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recorded {
    Whole(Outcome),
    /// The body was evicted: it was done, and this names what the answer was.
    DigestOnly {
        status: u16,
        digest: [u8; 32],
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub reason: RefusalReason,
    pub retry_after: Millis,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RefusalReason {
    /// The surface or tenant keeps as many records as it may.
    Quota,
    /// The records of the tenant take as many bytes as they may.
    Bytes,
    /// The surface or tenant runs as much as it may.
    Admission,
    /// The store may forget what it acknowledged, and the policy does not allow that for this effect.
    Forgetful,
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quota => "as many records are kept as may be [HX0007]",
            Self::Bytes => "the tenant's records take as many bytes as they may [HX0007]",
            Self::Admission => "as much is running as may [HX0007]",
            Self::Forgetful => {
                "the store may forget what it acknowledged, and the policy's `best_effort` does not name this effect [HX0134]"
            }
        })
    }
}

/// What a caller in doubt can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextAction {
    /// A probe is due then.
    WaitForProbe {
        at: Stamp,
    },
    AskOperator,
}

#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Verdict {
    WindowClosed { rejected: bool, status: u16, digest: [u8; 32], decided_wall: WallMillis },
    Mismatch,
    Replay(Replay),
    InFlight { retry_after: Millis, attempt: u32 },
    InDoubt { since: Stamp, attempt: u32, next: NextAction },
    Refused(Refusal),
    Fenced,
    Execute(Grant),
}
