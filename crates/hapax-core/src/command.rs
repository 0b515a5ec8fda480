//! What can be asked of an operation.

use std::sync::Arc;

use crate::{
    Effect, Fingerprint, Millis, Nonce, Outcome, OutcomeClass, Stamp, Ties, Token, Version,
    record::About,
    verdict::{Refusal, Replay, Verdict},
};

/// The caller's epoch, and the group's as it stood when the caller asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epochs {
    pub caller: u64,
    pub current: u64,
}

/// Whether there is room to run it now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admit {
    Yes,
    No(Refusal),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begin {
    pub nonce: Nonce,
    pub fingerprint: Option<Fingerprint>,
    pub effect: Effect,
    /// `None`: as the policy says.
    pub lease: Option<Millis>,
    pub owner: Arc<str>,
    /// Whether the effect may be under way from the answer on.
    pub started: bool,
    pub epoch: Option<Epochs>,
    /// Admission: whether one more may be in flight.
    pub admit: Admit,
    /// Capacity: whether one more record may be kept. Asked only where a new record is needed.
    pub room: Admit,
    pub about: Arc<About>,
    /// Its group, run and compensation, where it has them.
    pub ties: Option<Arc<Ties>>,
}

/// Why an attempt is given back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Release {
    /// Before the start: not admitted, not recordable, cancelled.
    BeforeStart,
    /// The owner's word that nothing happened, although it had started.
    NoEffect,
}

/// Why it is safe to run something again whose end is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Posture {
    /// A second run does no harm.
    Idempotent,
    /// A person takes it upon themselves.
    OperatorAccepted,
    /// The effect was made impossible downstream before this was said.
    Prevented,
    /// The attempt can no longer act: its owner is known dead, or a downstream deadline has passed.
    OwnerGone,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolution {
    Committed(Outcome),
    Rejected(Outcome),
    /// Run it again.
    Open(Posture),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolve {
    pub version: Version,
    pub resolution: Resolution,
    pub actor: Arc<str>,
    pub reason: Arc<str>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    Begin(Begin),
    Start {
        token: Token,
    },
    Renew {
        token: Token,
        lease: Millis,
    },
    Complete {
        token: Token,
        outcome: Outcome,
    },
    Reject {
        token: Token,
        outcome: Outcome,
    },
    /// A retryable failure, or with [`OutcomeClass::Unknown`] one nobody can judge.
    Fail {
        token: Token,
        outcome: Outcome,
    },
    Release {
        token: Token,
        why: Release,
    },
    /// The group refused the start: as if it had not been marked.
    Unstart {
        token: Token,
    },
    /// Nobody saw the answer to this begin and nobody will: take its write back, or make it impossible.
    Disown {
        nonce: Nonce,
        /// The version against which the begin was sent.
        expected: Version,
    },
    Resolve(Resolve),
    ClaimProbe {
        version: Version,
        next_at: Stamp,
    },
    /// Write down what time has done.
    Expire,
    /// Its group is done: what it did will not be undone any more, so its window ends when it ends.
    LetGo,
    /// Make room, inside the retention.
    Evict {
        /// No more tombstones may be kept.
        tombstones_full: bool,
    },
}

impl Command {
    /// The class that this command cannot say, if it tries to. A success that is failed would run again, a failure that
    /// is completed would be given again as a success.
    pub(crate) const fn wrong_class(&self) -> Option<OutcomeClass> {
        let (class, fits) = match self {
            Self::Complete { outcome, .. } => (outcome.class, outcome.class.completes()),
            Self::Reject { outcome, .. } => (outcome.class, outcome.class.rejects()),
            Self::Fail { outcome, .. } => (outcome.class, outcome.class.fails()),
            Self::Resolve(resolve) => match &resolve.resolution {
                Resolution::Committed(outcome) => (outcome.class, outcome.class.completes()),
                Resolution::Rejected(outcome) => (outcome.class, outcome.class.rejects()),
                Resolution::Open(_) => return None,
            },
            Self::Begin(_)
            | Self::Start { .. }
            | Self::Renew { .. }
            | Self::Release { .. }
            | Self::Unstart { .. }
            | Self::Disown { .. }
            | Self::ClaimProbe { .. }
            | Self::Expire
            | Self::LetGo
            | Self::Evict { .. } => return None,
        };
        if fits { None } else { Some(class) }
    }
}

/// The answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Reply {
    Verdict(Box<Verdict>),
    Done(Done),
    /// The token is not, or no longer, the one that counts.
    Fenced,
    /// It was decided otherwise, or the version has moved.
    Conflict(Conflict),
    Refused(Refused),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Nothing had to be done: it was so already.
    pub already: bool,
    /// It came after the lapse and was taken all the same.
    pub late: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// Somebody wrote since the version named was read.
    VersionMoved { now_at: Version },
    /// The attempt ended otherwise before; its outcome stands.
    OtherOutcome(Option<Box<Replay>>),
    /// The operation is in no state in which this can be asked.
    WrongState(crate::record::StateName),
    /// Another process holds the probe until then.
    ProbeClaimed { until: Stamp },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// An outcome of this class is said by another command. Nothing was written: it can still be said.
    WrongClass(OutcomeClass),
    /// Given back after the start, without the word that nothing happened.
    AlreadyStarted,
    /// Past the longest time an attempt may take.
    PastMaxAttempt,
    /// A resolution without a reason.
    BlankReason,
    /// Live work is never evicted.
    Live,
    /// Neither a tombstone nor nothing may be left behind.
    NoTombstones,
}
