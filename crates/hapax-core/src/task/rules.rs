//! One total function decides what becomes of a task: [`apply_task`].

use std::sync::Arc;

use crate::{Anchor, Moment, Outcome, Token, record::Lease};

use super::{
    EVIDENCE_KEPT, How, LeaseId, Leased, NewTask, NotNow, REPAIRS_KEPT, Repair, RepairKind, RepairPosture, Resolved,
    Task, TaskCommand, TaskEvidence, TaskReply, TaskState, TaskStep,
};

/// The one place where it is decided what a task may become.
pub fn apply_task(current: Option<&Task>, command: &TaskCommand, moment: Moment) -> TaskStep {
    let read = current.and_then(|task| task.as_read(moment));
    let Some(task) = read else {
        return match command {
            TaskCommand::Send(new) => send(new, moment),
            TaskCommand::Post { .. } | TaskCommand::Keep { .. } => TaskStep::answer(TaskReply::Fenced),
            TaskCommand::Enqueue { .. }
            | TaskCommand::Join { .. }
            | TaskCommand::Unjoin { .. }
            | TaskCommand::Lease { .. }
            | TaskCommand::Renew { .. }
            | TaskCommand::Release { .. }
            | TaskCommand::Repair { .. }
            | TaskCommand::Resolve { .. }
            | TaskCommand::Expire { .. }
            | TaskCommand::Ack { .. }
            | TaskCommand::Compact => TaskStep::refuse(NotNow::Unknown),
        };
    };
    match command {
        TaskCommand::Send(new) => sent_again(task, new),
        TaskCommand::Enqueue { place } => enqueue(task, *place),
        TaskCommand::Join { leader } => match &task.state {
            TaskState::Joined { leader: joined } if joined == leader => TaskStep::already(),
            TaskState::Sent { .. } | TaskState::Queued { .. } if *leader != task.order.id => {
                TaskStep::put(with(task, TaskState::Joined { leader: *leader }))
            }
            TaskState::Sent { .. }
            | TaskState::Queued { .. }
            | TaskState::Joined { .. }
            | TaskState::Leased(_)
            | TaskState::Resolved(_)
            | TaskState::Compacted { .. } => TaskStep::refuse(NotNow::NotQueued),
        },
        TaskCommand::Unjoin { place } => match &task.state {
            TaskState::Joined { .. } => TaskStep::put(with(task, TaskState::Sent { order: *place })),
            TaskState::Sent { .. } => TaskStep::already(),
            TaskState::Queued { .. } | TaskState::Leased(_) | TaskState::Resolved(_) | TaskState::Compacted { .. } => {
                TaskStep::refuse(NotNow::NotQueued)
            }
        },
        TaskCommand::Lease { .. } => lease(task, command, moment),
        TaskCommand::Renew { token, lease, order } => renew(task, *token, *lease, *order),
        TaskCommand::Release { token } => release(task, *token),
        TaskCommand::Post { token, outcome, order } => post(task, *token, outcome, *order, moment),
        TaskCommand::Keep { token, outcome } => keep_as_evidence(task, *token, outcome, moment),
        TaskCommand::Repair { lease, kind, actor, reason, order } => {
            let repair = Repair {
                kind: kind.clone(),
                lease: *lease,
                actor: Arc::clone(actor),
                reason: Arc::clone(reason),
                wall: moment.wall,
            };
            mend(task, repair, *order, moment)
        }
        TaskCommand::Resolve { how, outcome, order } => resolve(task, *how, outcome, *order, moment),
        TaskCommand::Expire { outcome, order } => {
            if task.is_overdue(moment.now) && task.order.deadline.is_some_and(|deadline| deadline.expires) {
                resolve(task, How::Expired, outcome, *order, moment)
            } else {
                TaskStep::refuse(NotNow::NotOverdue)
            }
        }
        TaskCommand::Ack { order } => ack(task, *order, moment),
        TaskCommand::Compact => compact(task),
    }
}

fn with(task: &Task, state: TaskState) -> Task {
    Task { state, ..task.clone() }
}

fn send(new: &NewTask, moment: Moment) -> TaskStep {
    // Where another record decides, it has to be asked before anybody may have this one.
    let state = match new.order.cache {
        Some(_) => TaskState::Sent { order: new.place },
        None => TaskState::Queued { order: new.place },
    };
    TaskStep::put(Task::sent(new, moment.wall, state))
}

fn sent_again(task: &Task, new: &NewTask) -> TaskStep {
    if task.order.digest != new.order.digest {
        return TaskStep::refuse(NotNow::OtherContent);
    }
    match &task.state {
        TaskState::Compacted { .. } => TaskStep::answer(TaskReply::AlreadyResolved),
        TaskState::Sent { .. }
        | TaskState::Joined { .. }
        | TaskState::Queued { .. }
        | TaskState::Leased(_)
        | TaskState::Resolved(_) => TaskStep::answer(TaskReply::Known),
    }
}

fn enqueue(task: &Task, place: u64) -> TaskStep {
    match &task.state {
        TaskState::Sent { .. } => TaskStep::put(with(task, TaskState::Queued { order: place })),
        TaskState::Queued { .. } => TaskStep::already(),
        TaskState::Joined { .. } | TaskState::Leased(_) | TaskState::Resolved(_) | TaskState::Compacted { .. } => {
            TaskStep::refuse(NotNow::NotQueued)
        }
    }
}

fn lease(task: &Task, command: &TaskCommand, moment: Moment) -> TaskStep {
    let TaskCommand::Lease { nonce, number, owner, request, lease, order } = command else {
        return TaskStep::refuse(NotNow::NotQueued);
    };
    match &task.state {
        // Our own write, whose answer was lost.
        TaskState::Leased(leased) if leased.token.nonce == *nonce => TaskStep::answer(TaskReply::Leased(leased.token)),
        TaskState::Queued { order: place } => {
            let token = Token { attempt: number.unwrap_or(task.number.saturating_add(1)), nonce: *nonce };
            let leased = Leased {
                token,
                owner: Arc::clone(owner),
                request: *request,
                since_wall: moment.wall,
                lease: Some(Lease { from: Anchor::Write, length: *lease }),
                order: *order,
                place: *place,
            };
            let next = Task {
                state: TaskState::Leased(Box::new(leased)),
                attempt: task.attempt.saturating_add(1),
                number: task.number.max(token.attempt),
                ..task.clone()
            };
            TaskStep { write: Some(next), reply: TaskReply::Leased(token) }
        }
        TaskState::Sent { .. }
        | TaskState::Joined { .. }
        | TaskState::Leased(_)
        | TaskState::Resolved(_)
        | TaskState::Compacted { .. } => TaskStep::refuse(NotNow::NotQueued),
    }
}

/// The lease that this token holds.
fn held(task: &Task, token: Token) -> Option<&Leased> {
    match &task.state {
        TaskState::Leased(leased) if leased.token == token => Some(leased),
        TaskState::Leased(_)
        | TaskState::Sent { .. }
        | TaskState::Joined { .. }
        | TaskState::Queued { .. }
        | TaskState::Resolved(_)
        | TaskState::Compacted { .. } => None,
    }
}

/// A lapse only marks the lease stale: its worker may come back as long as nobody has repaired it.
fn renew(task: &Task, token: Token, length: crate::Millis, order: u64) -> TaskStep {
    let Some(leased) = held(task, token) else { return TaskStep::answer(TaskReply::Fenced) };
    let lease = Some(Lease { from: Anchor::Write, length });
    TaskStep::put(with(task, TaskState::Leased(Box::new(Leased { lease, order, ..leased.clone() }))))
}

fn release(task: &Task, token: Token) -> TaskStep {
    match held(task, token) {
        Some(leased) => TaskStep::put(Task {
            state: TaskState::Queued { order: leased.place },
            attempt: task.attempt.saturating_sub(1),
            ..task.clone()
        }),
        // Said again after a lost answer, by the last that held it: it is so already.
        None if matches!(task.state, TaskState::Queued { .. })
            && task.number == token.attempt
            && task.repairs.last().is_none_or(|repair| repair.lease != LeaseId::of(&task.order.id, token)) =>
        {
            TaskStep::already()
        }
        None => TaskStep::answer(TaskReply::Fenced),
    }
}

fn post(task: &Task, token: Token, outcome: &Outcome, order: u64, moment: Moment) -> TaskStep {
    if held(task, token).is_some() {
        return TaskStep::put(resolved(task, How::Posted(token), outcome, order, moment));
    }
    match &task.state {
        TaskState::Resolved(resolved) if resolved.how == How::Posted(token) => {
            if resolved.outcome.equals(outcome) {
                TaskStep::already()
            } else {
                TaskStep::answer(TaskReply::OtherResult)
            }
        }
        TaskState::Sent { .. }
        | TaskState::Joined { .. }
        | TaskState::Queued { .. }
        | TaskState::Leased(_)
        | TaskState::Resolved(_)
        | TaskState::Compacted { .. } => keep_as_evidence(task, token, outcome, moment),
    }
}

/// Refuses a result without losing it.
fn keep_as_evidence(task: &Task, token: Token, outcome: &Outcome, moment: Moment) -> TaskStep {
    let known = task.evidence.iter().any(|kept| kept.attempt == token.attempt && kept.outcome.equals(outcome));
    // Of a compacted task nothing is kept any more, and a number that was never given out is nobody's result.
    let kept_here = !matches!(task.state, TaskState::Compacted { .. }) && (1..=task.number).contains(&token.attempt);
    if known || !kept_here {
        return TaskStep::answer(TaskReply::Fenced);
    }
    let mut next = task.clone();
    if next.evidence.len() == EVIDENCE_KEPT {
        next.evidence.remove(0);
    }
    next.evidence.push(TaskEvidence { attempt: token.attempt, outcome: outcome.clone(), wall: moment.wall });
    TaskStep { write: Some(next), reply: TaskReply::Fenced }
}

fn mend(task: &Task, repair: Repair, order: u64, moment: Moment) -> TaskStep {
    if repair.reason.trim().is_empty() {
        return TaskStep::refuse(NotNow::BlankReason);
    }
    let leased = match &task.state {
        TaskState::Leased(leased) => leased,
        TaskState::Sent { .. }
        | TaskState::Joined { .. }
        | TaskState::Queued { .. }
        | TaskState::Resolved(_)
        | TaskState::Compacted { .. } => {
            // Said again after a lost answer.
            let same = task.repairs.last().is_some_and(|last| last.lease == repair.lease && last.kind == repair.kind);
            return if same { TaskStep::already() } else { TaskStep::refuse(NotNow::NotInFlight) };
        }
    };
    if LeaseId::of(&task.order.id, leased.token) != repair.lease {
        return TaskStep::refuse(NotNow::OtherLease);
    }
    let mut next = match &repair.kind {
        RepairKind::Requeue { posture: RepairPosture::Idempotent, .. }
            if task.order.class() != super::Class::Idempotent =>
        {
            return TaskStep::refuse(NotNow::PostureNeedsClass);
        }
        RepairKind::Requeue { .. } => with(task, TaskState::Queued { order }),
        RepairKind::ForceError { message } => {
            resolved(task, How::Forced, &super::forward::forced(message), order, moment)
        }
    };
    if next.repairs.len() == REPAIRS_KEPT {
        next.repairs.remove(0);
    }
    next.repairs.push(repair);
    TaskStep::put(next)
}

fn resolved(task: &Task, how: How, outcome: &Outcome, order: u64, moment: Moment) -> Task {
    let resolved = Resolved { outcome: outcome.clone(), how, wall: moment.wall, acked: None, order };
    with(task, TaskState::Resolved(Box::new(resolved)))
}

/// A result for a task that nobody holds.
fn resolve(task: &Task, how: How, outcome: &Outcome, order: u64, moment: Moment) -> TaskStep {
    match &task.state {
        TaskState::Sent { .. } | TaskState::Joined { .. } | TaskState::Queued { .. } => {
            TaskStep::put(resolved(task, how, outcome, order, moment))
        }
        TaskState::Resolved(known) if known.how == how && known.outcome.equals(outcome) => TaskStep::already(),
        TaskState::Resolved(_) | TaskState::Leased(_) | TaskState::Compacted { .. } => {
            TaskStep::refuse(NotNow::NotQueued)
        }
    }
}

fn ack(task: &Task, order: u64, moment: Moment) -> TaskStep {
    match &task.state {
        TaskState::Resolved(resolved) if resolved.acked.is_some() => TaskStep::already(),
        TaskState::Resolved(resolved) => {
            let acked = Resolved { acked: Some(moment.wall), order, ..(**resolved).clone() };
            TaskStep::put(with(task, TaskState::Resolved(Box::new(acked))))
        }
        TaskState::Compacted { .. } => TaskStep::already(),
        TaskState::Sent { .. } | TaskState::Joined { .. } | TaskState::Queued { .. } | TaskState::Leased(_) => {
            TaskStep::refuse(NotNow::NoResult)
        }
    }
}

/// Leaves the id and the digest. The caller has seen to those who joined it.
fn compact(task: &Task) -> TaskStep {
    match &task.state {
        TaskState::Resolved(resolved) if resolved.acked.is_some() => TaskStep::put(Task {
            state: TaskState::Compacted { since: Anchor::Write },
            repairs: Vec::new(),
            evidence: Vec::new(),
            order: Arc::new(task.order.stone()),
            ..task.clone()
        }),
        TaskState::Compacted { .. } => TaskStep::already(),
        TaskState::Resolved(_)
        | TaskState::Sent { .. }
        | TaskState::Joined { .. }
        | TaskState::Queued { .. }
        | TaskState::Leased(_) => TaskStep::refuse(NotNow::NotDone),
    }
}
