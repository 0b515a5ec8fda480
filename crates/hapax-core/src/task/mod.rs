//! Tasks between agents: durable work, explicitly leased, never silently handed out twice.
//!
//! One record decides about a task. For work that declares itself idempotent that is an ordinary operation, which also is
//! the cache of its result; for all other work it is the task itself. Every other record is derived and rolled forward
//! by whoever reads it ([`forward`]). [`apply_task`] is the one place where it is decided what a task may become.

mod command;
mod forward;
mod gate;
mod id;
mod key_slot;
mod repair;
mod rules;
mod tags;

use std::sync::Arc;

use bytes::Bytes;

use crate::{Anchor, Fingerprint, Id, Millis, Moment, Outcome, Span, Stamp, Token, WallMillis, record::About};

pub use command::{NewTask, NotNow, TaskCommand, TaskReply, TaskStep};
pub use forward::{Beside, Next, RELEASED, failure, forward, released};
pub use gate::{GateEntry, GatePolicy, GateReport, Requeued, Skip, Skipped, judge_gate, scan_gate};
pub use id::{LeaseId, TaskId, owner_of, task_of_owner};
pub use key_slot::{KeySlot, Leader, apply_key_slot};
pub use repair::{Repair, RepairKind, RepairPosture};
pub use rules::apply_task;
pub use tags::{
    compactable_tag, compactable_tag_of, joined_tag, leased_tag, leased_tag_of, queue_tag, request_tag, results_tag,
    tenant_tag, waiting_tag_of,
};

/// The surface of the operations that decide about idempotent tasks and keep their results.
pub const SURFACE: &str = "a2a";
/// The surface under which tasks are counted and listed.
pub const TASK_SURFACE: &str = "a2a.task";
/// How many refused results a task keeps as evidence.
pub const EVIDENCE_KEPT: usize = 4;
/// How many repairs a task remembers.
pub const REPAIRS_KEPT: usize = 8;
/// How long the id of a compacted task is remembered.
pub const STONE_KEPT: Span = Span::For(Millis::from_days(90));

/// One side of a task. Two peers are the same if their keys are.
#[derive(Clone, Debug)]
pub struct Peer {
    pub key: Arc<str>,
    pub display: Arc<str>,
}

impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Peer {}

/// What the sender says about doing it twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    Idempotent,
    Unsafe,
}

impl Class {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idempotent => "idempotent",
            Self::Unsafe => "unsafe",
        }
    }

    /// `operator_accepted` is a posture of people, not a property of work: as a class it is read as unsafe.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "idempotent" => Some(Self::Idempotent),
            "unsafe" | "operator_accepted" => Some(Self::Unsafe),
            _ => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Idempotency {
    pub class: Class,
    /// Never blank. The worker forwards it to calls that take one, so it is kept as it is.
    pub key: Arc<str>,
}

/// What is sent. Its `Debug` shows no bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    pub json: bool,
    pub bytes: Bytes,
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({}, {} bytes)", if self.json { "json" } else { "bytes" }, self.bytes.len())
    }
}

/// When it should have been begun, told twice: for people, and for the rules as a time after the send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    pub wall: WallMillis,
    pub after: Millis,
    /// Whether it ends with an error then; otherwise it is only reported.
    pub expires: bool,
}

/// What does not change about a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    pub id: TaskId,
    pub sender: Peer,
    pub recipient: Peer,
    pub kind: Arc<str>,
    pub intent: Arc<str>,
    pub payload: Payload,
    /// Guards the idempotency key: the same key with another payload is refused.
    pub print: Fingerprint,
    pub parent: Option<TaskId>,
    pub deadline: Option<Deadline>,
    pub idempotency: Option<Idempotency>,
    /// The operation that decides, where the task itself does not.
    pub cache: Option<Id>,
    /// Names all of the above, so that sending the same id again can be told from another task under its id.
    pub digest: [u8; 32],
}

impl Order {
    /// No metadata counts as unsafe.
    #[must_use]
    pub fn class(&self) -> Class {
        self.idempotency.as_ref().map_or(Class::Unsafe, |idempotency| idempotency.class)
    }

    /// What is left of it: whose it was, and by what it is known again.
    fn stone(&self) -> Self {
        Self {
            kind: "".into(),
            intent: "".into(),
            payload: Payload { json: false, bytes: Bytes::new() },
            parent: None,
            deadline: None,
            idempotency: None,
            cache: None,
            ..self.clone()
        }
    }
}

/// One running lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leased {
    pub token: Token,
    pub owner: Arc<str>,
    /// The call that took it, so that its repeat finds what it took.
    pub request: Option<[u8; 16]>,
    pub since_wall: WallMillis,
    /// `None`: it came in flight from a log that does not say.
    pub lease: Option<crate::record::Lease>,
    /// The place among the leased: about when it was last renewed.
    pub order: u64,
    /// Its place in the queue, for a release.
    pub place: u64,
}

/// How a task came to its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Posted(Token),
    /// The cache had it.
    Replayed,
    /// It ended as the task that it had joined.
    Joined(TaskId),
    /// Somebody ended it with an error.
    Forced,
    /// Nobody began it in time.
    Expired,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    pub outcome: Outcome,
    pub how: How,
    pub wall: WallMillis,
    /// The sender has it.
    pub acked: Option<WallMillis>,
    /// The place among the results, later among what can be compacted.
    pub order: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// Written, and not yet known whether an equal task is under way.
    Sent {
        order: u64,
    },
    /// It ends as that one ends.
    Joined {
        leader: TaskId,
    },
    Queued {
        order: u64,
    },
    Leased(Box<Leased>),
    Resolved(Box<Resolved>),
    /// Only its id and digest are left.
    Compacted {
        since: Anchor,
    },
}

/// A result that came too late to count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskEvidence {
    pub attempt: u32,
    pub outcome: Outcome,
    pub wall: WallMillis,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    pub about: Arc<About>,
    pub order: Arc<Order>,
    pub state: TaskState,
    /// How many leases were not given back.
    pub attempt: u32,
    /// The number of the latest token. It never goes back.
    pub number: u32,
    pub sent: Anchor,
    pub sent_wall: WallMillis,
    pub repairs: Vec<Repair>,
    pub evidence: Vec<TaskEvidence>,
}

/// The state as it is named to people.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum TaskStateName {
    Queued,
    Joined,
    Leased,
    /// Leased, and the lease is over: only a repair or the gate hands it out again.
    Stale,
    ResultPending,
    Delivered,
    Compacted,
}

impl TaskStateName {
    pub const ALL: [Self; 7] =
        [Self::Queued, Self::Joined, Self::Leased, Self::Stale, Self::ResultPending, Self::Delivered, Self::Compacted];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Joined => "joined",
            Self::Leased => "leased",
            Self::Stale => "stale",
            Self::ResultPending => "result_pending",
            Self::Delivered => "delivered",
            Self::Compacted => "compacted",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == text)
    }
}

impl Task {
    /// As read back: what counts from the write now says when that was.
    pub fn settle(&mut self, stamp: Stamp) {
        self.sent = self.sent.settled(stamp);
        match &mut self.state {
            TaskState::Leased(leased) => {
                if let Some(lease) = &mut leased.lease {
                    lease.from = lease.from.settled(stamp);
                }
            }
            TaskState::Compacted { since } => *since = since.settled(stamp),
            TaskState::Sent { .. } | TaskState::Joined { .. } | TaskState::Queued { .. } | TaskState::Resolved(_) => {}
        }
    }

    #[must_use]
    pub fn state_name(&self, now: Stamp) -> TaskStateName {
        match &self.state {
            TaskState::Sent { .. } | TaskState::Queued { .. } => TaskStateName::Queued,
            TaskState::Joined { .. } => TaskStateName::Joined,
            TaskState::Leased(leased) if leased.has_lapsed(now) => TaskStateName::Stale,
            TaskState::Leased(_) => TaskStateName::Leased,
            TaskState::Resolved(resolved) if resolved.acked.is_some() => TaskStateName::Delivered,
            TaskState::Resolved(_) => TaskStateName::ResultPending,
            TaskState::Compacted { .. } => TaskStateName::Compacted,
        }
    }

    /// Neither resolved nor gone.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        match self.state {
            TaskState::Sent { .. } | TaskState::Joined { .. } | TaskState::Queued { .. } | TaskState::Leased(_) => true,
            TaskState::Resolved(_) | TaskState::Compacted { .. } => false,
        }
    }

    /// Whether it waits beyond its deadline.
    #[must_use]
    pub fn is_overdue(&self, now: Stamp) -> bool {
        let waits = matches!(self.state, TaskState::Sent { .. } | TaskState::Queued { .. } | TaskState::Joined { .. });
        let end = self.order.deadline.map(|deadline| self.sent.resolve(Stamp(0)).plus(deadline.after));
        waits && end.is_some_and(|end| end <= now)
    }

    /// Of what is compacted only the stone is left, for a while.
    #[must_use]
    pub fn as_read(&self, moment: Moment) -> Option<&Self> {
        match &self.state {
            TaskState::Compacted { since } => {
                let over = STONE_KEPT.end(since.resolve(Stamp(0)));
                over.is_none_or(|over| moment.now < over).then_some(self)
            }
            TaskState::Sent { .. }
            | TaskState::Joined { .. }
            | TaskState::Queued { .. }
            | TaskState::Leased(_)
            | TaskState::Resolved(_) => Some(self),
        }
    }

    /// As it would be under the lease that the deciding operation knows: a renewal reaches that one first.
    #[must_use]
    pub fn leased_as(&self, lease: &crate::record::Lease) -> Self {
        let mut task = self.clone();
        if let TaskState::Leased(leased) = &mut task.state {
            leased.lease = Some(lease.clone());
        }
        task
    }

    #[must_use]
    pub fn lease_id(&self) -> Option<LeaseId> {
        match &self.state {
            TaskState::Leased(leased) => Some(LeaseId::of(&self.order.id, leased.token)),
            TaskState::Sent { .. }
            | TaskState::Joined { .. }
            | TaskState::Queued { .. }
            | TaskState::Resolved(_)
            | TaskState::Compacted { .. } => None,
        }
    }
}

impl Leased {
    /// A lease that nobody knows the end of counts as over.
    #[must_use]
    pub fn has_lapsed(&self, now: Stamp) -> bool {
        self.lease.as_ref().is_none_or(|lease| crate::lease_end(lease) <= now)
    }

    /// How long ago it was taken or renewed.
    #[must_use]
    pub fn age(&self, now: Stamp) -> Option<Millis> {
        self.lease.as_ref().map(|lease| now.since(lease.from.resolve(Stamp(0))))
    }
}
