//! What can be asked of a task.

use std::sync::Arc;

use crate::{Millis, Nonce, Outcome, Token, WallMillis, record::About};

use super::{How, LeaseId, Order, RepairKind, Task, TaskId};

/// What a send brings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTask {
    pub about: Arc<About>,
    pub order: Arc<Order>,
    /// Its place in the queue.
    pub place: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskCommand {
    Send(NewTask),
    /// No equal task is under way: into the queue.
    Enqueue {
        place: u64,
    },
    /// An equal task is under way: end as that one ends.
    Join {
        leader: TaskId,
    },
    /// The task that it joined is gone without an answer: begin again as if just sent.
    Unjoin {
        place: u64,
    },
    /// Hand it out. `number` is the token's own where another record decides.
    Lease {
        nonce: Nonce,
        number: Option<u32>,
        owner: Arc<str>,
        request: Option<[u8; 16]>,
        lease: Millis,
        order: u64,
    },
    Renew {
        token: Token,
        lease: Millis,
        order: u64,
    },
    /// The worker's word that nothing happened. It does not count as an attempt.
    Release {
        token: Token,
    },
    Post {
        token: Token,
        outcome: Outcome,
        order: u64,
    },
    /// A refused result whose refusal another record has decided.
    Keep {
        token: Token,
        outcome: Outcome,
    },
    Repair {
        lease: LeaseId,
        kind: RepairKind,
        actor: Arc<str>,
        reason: Arc<str>,
        order: u64,
    },
    /// It has a result without having been leased.
    Resolve {
        how: How,
        outcome: Outcome,
        order: u64,
    },
    /// Its deadline has passed before anybody began it.
    Expire {
        outcome: Outcome,
        order: u64,
    },
    Ack {
        order: u64,
    },
    Compact,
}

/// Why a task does not do as it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotNow {
    #[error("no such task")]
    Unknown,
    #[error("this id was used for another task; take a new id, or send the task as it was")]
    OtherContent,
    #[error("the task is not in flight")]
    NotInFlight,
    #[error("another lease is in flight than the one named; look at the task again")]
    OtherLease,
    #[error(
        "the task does not say that it may run twice; requeue it as `operator_accepted` if you take that upon yourself"
    )]
    PostureNeedsClass,
    #[error("a repair needs a reason")]
    BlankReason,
    #[error("the task has no result yet")]
    NoResult,
    #[error("the task is not done with: its result is not acknowledged")]
    NotDone,
    #[error("the task is not waiting in its queue")]
    NotQueued,
    #[error("the task is not overdue")]
    NotOverdue,
}

#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum TaskReply {
    /// It is as was asked; `already`: it was so before.
    Done {
        already: bool,
    },
    /// It was sent before, with the same content.
    Known,
    /// It was sent before, is resolved, and only its id is left.
    AlreadyResolved,
    Leased(Token),
    /// The token does not count, or no longer.
    Fenced,
    /// The attempt ended otherwise before; that result stands.
    OtherResult,
    Refused(NotNow),
}

#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct TaskStep {
    pub write: Option<Task>,
    pub reply: TaskReply,
}

impl TaskStep {
    pub(super) const fn answer(reply: TaskReply) -> Self {
        Self { write: None, reply }
    }

    pub(super) const fn refuse(why: NotNow) -> Self {
        Self::answer(TaskReply::Refused(why))
    }

    pub(super) const fn already() -> Self {
        Self::answer(TaskReply::Done { already: true })
    }

    pub(super) const fn put(task: Task) -> Self {
        Self { write: Some(task), reply: TaskReply::Done { already: false } }
    }
}

impl Task {
    pub(super) fn sent(new: &NewTask, wall: WallMillis, state: super::TaskState) -> Self {
        Self {
            about: Arc::clone(&new.about),
            order: Arc::clone(&new.order),
            state,
            attempt: 0,
            number: 0,
            sent: crate::Anchor::Write,
            sent_wall: wall,
            repairs: Vec::new(),
            evidence: Vec::new(),
        }
    }
}
