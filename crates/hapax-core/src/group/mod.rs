//! A lineage of operations with an epoch: a conversation attempt, a run, a saga.
//!
//! The group's record decides. *Supersede* raises the epoch, then looks at the members; a *start* writes its operation,
//! then looks at the group. Each side writes before it reads, so one of the two always sees the other. Starts of effects
//! that cannot be taken for harmless are listed in the group's record by the same compare-and-set that checks the epoch:
//! a supersede reports them from the version that it swapped, and whoever is not listed was refused.

mod command;
mod rules;

use std::sync::Arc;

use crate::{Anchor, Effect, Id, Nonce, Span, Stamp, WallMillis, record::About};

pub use command::{GroupCommand, GroupReply, GroupStep, WhyNot};
pub use rules::{apply_group, group_as_read, may_have_started, may_start, may_start_as, may_supersede, started_before};

/// How many of the latest supersedes are recognised when they are said again.
pub const RAISES_KEPT: usize = 8;
/// How many starts one group lists: its record is written whole at each of them.
pub const MOST_STARTS: usize = 4_096;

/// One supersede, by the nonce it came with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Raise {
    pub nonce: Nonce,
    /// The epoch it led to.
    pub epoch: u64,
}

/// A commit point: from here on no supersede and no absorb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitPoint {
    /// The irreversible effect that started, or `None` where somebody said so.
    pub by: Option<Id>,
    pub wall: WallMillis,
}

/// A start of a compensatable or irreversible effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Started {
    pub member: Id,
    pub attempt: u32,
    pub epoch: u64,
    pub effect: Effect,
    /// The order of starts, which undoing turns round.
    pub ordinal: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupPhase {
    Open,
    /// Nothing starts any more; its members are being let go.
    Closing,
    Closed {
        since: Anchor,
        /// At least as long as its members are kept.
        keep: Span,
    },
}

/// Everything that is known about one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    pub about: Arc<About>,
    /// The group that this one was forked from.
    pub parent: Option<Id>,
    pub epoch: u64,
    /// The latest [`RAISES_KEPT`] supersedes.
    pub raises: Vec<Raise>,
    pub committed: Option<CommitPoint>,
    /// It is being undone: nothing starts.
    pub unwinding: bool,
    pub phase: GroupPhase,
    pub starts: Vec<Started>,
    pub next_ordinal: u64,
    /// How many messages were absorbed into its turns.
    pub absorbed: u64,
    pub created_wall: WallMillis,
}

impl Group {
    /// As read back: its window counts from a moment.
    pub const fn settle(&mut self, stamp: Stamp) {
        if let GroupPhase::Closed { since, keep: _ } = &mut self.phase {
            *since = since.settled(stamp);
        }
    }
}

/// Whether the group's record lists a start of this effect, so that only one of *started* and *refused* can be true.
/// The others are checked by a read.
#[must_use]
pub const fn is_listed(effect: Effect) -> bool {
    match effect {
        Effect::Compensatable | Effect::Irreversible => true,
        Effect::Pure | Effect::Idempotent | Effect::Unsafe => false,
    }
}
