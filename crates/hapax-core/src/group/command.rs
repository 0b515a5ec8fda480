use std::{fmt, sync::Arc};

use crate::{Effect, Id, Nonce, Span, record::About};

use super::{Group, Started};

/// What can be asked of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupCommand {
    /// Makes it, or finds it.
    Create { about: Arc<About>, parent: Option<Id> },
    /// SUPERSEDE: keeps the group and raises its epoch. Said again with the same nonce it raises it once.
    Inherit { nonce: Nonce },
    /// ABSORB: one more message belongs to the turn of this epoch.
    Absorb { epoch: u64 },
    /// A member is marked as started; may it go on?
    Start { member: Id, attempt: u32, epoch: u64, effect: Effect },
    /// A commit point, said by somebody.
    Commit,
    /// What was done is to be undone: nothing starts from here on.
    Unwind,
    /// Nothing starts from here on; the members are let go next.
    Close,
    /// All members were let go; kept for so long, counted from this write.
    Settle { keep: Span },
}

/// Why a group refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyNot {
    /// There is no such group, or it is long closed.
    Absent,
    /// A newer epoch has begun.
    Superseded {
        current: u64,
    },
    /// It is past its commit point.
    Committed {
        by: Option<Id>,
    },
    /// It is being undone.
    Unwinding,
    Closed,
    /// It lists as many starts as it may.
    Full,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no such group; create it first"),
            Self::Superseded { current } => {
                write!(f, "a newer turn has begun (epoch {current}); leave the work to it")
            }
            Self::Committed { by: Some(member) } => write!(
                f,
                "it is committed: the irreversible effect {member} has started; queue the message as a new group"
            ),
            Self::Committed { by: None } => {
                f.write_str("it is committed: a commit point was set; queue the message as a new group")
            }
            Self::Unwinding => f.write_str("it is being undone, so nothing starts in it; use a new group"),
            Self::Closed => f.write_str("it is closed; use a new group"),
            Self::Full => {
                write!(f, "it lists {} starts, as many as it may; go on in a forked group", super::MOST_STARTS)
            }
        }
    }
}

/// The answer of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum GroupReply {
    Made {
        epoch: u64,
        already: bool,
    },
    Raised {
        epoch: u64,
        already: bool,
        /// The listed starts of older epochs, as the version that was swapped had them.
        started: Vec<Started>,
    },
    Started {
        ordinal: u64,
        already: bool,
    },
    Done {
        already: bool,
    },
    Refused(WhyNot),
}

/// Everything that follows from one command to a group.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct GroupStep {
    /// `None`: nothing is written.
    pub write: Option<Group>,
    pub reply: GroupReply,
}
