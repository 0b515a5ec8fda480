//! Rolling forward: what a task becomes when the records beside it have moved on and nobody has told it.
//!
//! Every composite step writes the deciding record first. A crash after that write leaves a task that lags behind;
//! whoever reads it does the rest, and it does not matter who, or how often.

use std::sync::Arc;

use crate::{Body, Outcome, OutcomeClass, Record, State, record::End};

use super::{How, LeaseId, RepairKind, RepairPosture, Task, TaskCommand, TaskState, id::task_of_owner};

/// What lies beside a task, as far as its state asks for it.
#[derive(Clone, Copy, Debug)]
pub enum Beside<'a> {
    /// The operation that decides; `None`: there is none.
    Decider(Option<&'a Record>),
    /// The task that it joined; `None`: gone.
    Leader(Option<&'a Task>),
}

/// What is to be done to the task.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Next {
    /// It is as it should be.
    Nothing,
    /// Its key has to be asked who leads.
    Admit,
    Command(TaskCommand),
}

/// The mark of an attempt that was given back. The word of its worker is that nothing happened.
pub const RELEASED: u16 = 499;

/// The result of a forced error. It is never cached.
pub(super) fn forced(message: &str) -> Outcome {
    failure(message)
}

/// An error as a result.
#[must_use]
pub fn failure(message: &str) -> Outcome {
    let body = Body::Inline(message.as_bytes().to_vec().into());
    Outcome { status: 500, ..Outcome::new(OutcomeClass::FinalFailure, body) }
}

/// What an attempt ends with in its operation when the worker gives the task back.
#[must_use]
pub fn released() -> Outcome {
    Outcome { status: RELEASED, ..Outcome::new(OutcomeClass::RetryableFailure, Body::Empty) }
}

/// What has to be done to a task for it to agree with what decides about it. `order` is for whatever list it enters.
pub fn forward(task: &Task, beside: Beside<'_>, order: u64) -> Next {
    match (&task.state, beside) {
        (TaskState::Sent { .. }, _) => Next::Admit,
        (TaskState::Joined { leader }, Beside::Leader(found)) => follow(*leader, found, order),
        (TaskState::Queued { .. }, Beside::Decider(Some(decider))) => begun(task, decider, order),
        (TaskState::Leased(_), Beside::Decider(Some(decider))) => decided(task, decider, order),
        (TaskState::Queued { .. } | TaskState::Leased(_), Beside::Decider(None) | Beside::Leader(_))
        | (TaskState::Joined { .. }, Beside::Decider(_))
        | (TaskState::Resolved(_) | TaskState::Compacted { .. }, _) => Next::Nothing,
    }
}

fn follow(leader: super::TaskId, found: Option<&Task>, order: u64) -> Next {
    match found.map(|task| &task.state) {
        Some(TaskState::Resolved(resolved)) => {
            Next::Command(TaskCommand::Resolve { how: How::Joined(leader), outcome: resolved.outcome.clone(), order })
        }
        Some(TaskState::Compacted { .. }) | None => Next::Command(TaskCommand::Unjoin { place: order }),
        Some(TaskState::Sent { .. } | TaskState::Joined { .. } | TaskState::Queued { .. } | TaskState::Leased(_)) => {
            Next::Nothing
        }
    }
}

/// Queued, as far as it knows itself.
fn begun(task: &Task, decider: &Record, order: u64) -> Next {
    match &decider.state {
        State::Pending(pending) => match task_of_owner(&decider.attempt.owner) {
            // Leased, and the worker or this process went away before the task was marked.
            Some(owner) if owner == task.order.id => Next::Command(TaskCommand::Lease {
                nonce: decider.attempt.nonce,
                number: Some(decider.attempt.number),
                owner: Arc::clone(&decider.attempt.owner),
                request: None,
                lease: pending.lease.length,
                order,
            }),
            Some(leader) => Next::Command(TaskCommand::Join { leader }),
            None => Next::Nothing,
        },
        // What it waits for is known: the lease asks and is told. Looking alone changes nothing.
        State::Committed(_) | State::Rejected(_) | State::Open(_) | State::InDoubt(_) | State::Tombstone(_) => {
            Next::Nothing
        }
    }
}

/// Leased, as far as it knows itself.
fn decided(task: &Task, decider: &Record, order: u64) -> Next {
    let TaskState::Leased(leased) = &task.state else { return Next::Nothing };
    let ours = decider.token() == leased.token;
    let lease = LeaseId::of(&task.order.id, leased.token);
    let requeue = |actor: &Arc<str>, reason: &Arc<str>| TaskCommand::Repair {
        lease,
        kind: RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false },
        actor: Arc::clone(actor),
        reason: Arc::clone(reason),
        order,
    };
    let posted = |outcome: &Outcome| TaskCommand::Post { token: leased.token, outcome: outcome.clone(), order };
    match (&decider.state, decider.attempt.end) {
        (State::Pending(_) | State::InDoubt(_), _) if ours => Next::Nothing,
        (State::Committed(done) | State::Rejected(done), _) if ours => Next::Command(posted(&done.outcome)),
        (State::Open(open), End::Failed) if ours => match &open.failure {
            Some(failure) if failure.class != OutcomeClass::RetryableFailure => Next::Command(posted(failure)),
            Some(_) | None => Next::Command(TaskCommand::Release { token: leased.token }),
        },
        (State::Open(_), End::Resolved) if ours => match &decider.resolved {
            Some(resolved) => {
                let (kind, reason) = RepairKind::of_fence(&resolved.reason);
                Next::Command(TaskCommand::Repair { lease, kind, actor: Arc::clone(&resolved.actor), reason, order })
            }
            None => Next::Command(requeue(&"unknown".into(), &"its operation was opened again".into())),
        },
        // Only time has passed. Nobody has given it back or taken it away, so its lease is stale and still its worker's,
        // whatever the policy was that opened the operation.
        (State::Open(_), End::Lapsed { .. } | End::FailedUnknown | End::Running) if ours => Next::Nothing,
        (State::Open(_), End::Completed | End::Rejected | End::Released | End::TakenOver) if ours => {
            Next::Command(TaskCommand::Release { token: leased.token })
        }
        // The body of the answer is gone; that it was given is all that can be said, and it cannot be posted again.
        (State::Tombstone(_), _) => Next::Nothing,
        // A later attempt began, so this one was fenced by somebody.
        (State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_), _) => {
            if decider.attempt.number > leased.token.attempt {
                Next::Command(requeue(&decider.attempt.owner, &"a later attempt of its operation began".into()))
            } else {
                Next::Nothing
            }
        }
    }
}
