//! The bytes of a task's state and of its repairs.

use hapax_core::{
    Millis, Nonce, Token, WallMillis,
    record::Lease,
    task::{How, LeaseId, Leased, Repair, RepairKind, RepairPosture, Resolved, TaskId, TaskState},
};

use super::{
    operation::{read_anchor, read_outcome, write_anchor, write_outcome},
    read::{CodecError, Read, Reader},
    write::Writer,
};

pub(super) fn write_state(w: &mut Writer, state: &TaskState) {
    match state {
        TaskState::Sent { order } => {
            w.byte(1);
            w.number(*order);
        }
        TaskState::Joined { leader } => {
            w.byte(2);
            w.fixed(&leader.0);
        }
        TaskState::Queued { order } => {
            w.byte(3);
            w.number(*order);
        }
        TaskState::Leased(leased) => {
            w.byte(4);
            write_token(w, leased.token);
            w.text(&leased.owner);
            w.maybe(leased.request.as_ref(), |w, request| w.fixed(request));
            w.number(leased.since_wall.0);
            w.maybe(leased.lease.as_ref(), |w, lease| {
                write_anchor(w, lease.from);
                w.number(lease.length.0);
            });
            w.number(leased.order);
            w.number(leased.place);
        }
        TaskState::Resolved(resolved) => {
            w.byte(5);
            write_outcome(w, &resolved.outcome);
            write_how(w, resolved.how);
            w.number(resolved.wall.0);
            w.maybe(resolved.acked, |w, acked| w.number(acked.0));
            w.number(resolved.order);
        }
        TaskState::Compacted { since } => {
            w.byte(6);
            write_anchor(w, *since);
        }
    }
}

pub(super) fn read_state(r: &mut Reader<'_>) -> Read<TaskState> {
    Ok(match r.byte("state of task")? {
        1 => TaskState::Sent { order: r.number("place")? },
        2 => TaskState::Joined { leader: TaskId(r.fixed("leader")?) },
        3 => TaskState::Queued { order: r.number("place")? },
        4 => TaskState::Leased(Box::new(Leased {
            token: read_token(r)?,
            owner: r.text("owner")?,
            request: r.maybe("request", |r| r.fixed("request"))?,
            since_wall: WallMillis(r.number("time of lease")?),
            lease: r.maybe("lease", |r| Ok(Lease { from: read_anchor(r)?, length: Millis(r.number("lease")?) }))?,
            order: r.number("place")?,
            place: r.number("place")?,
        })),
        5 => TaskState::Resolved(Box::new(Resolved {
            outcome: read_outcome(r)?,
            how: read_how(r)?,
            wall: WallMillis(r.number("time of result")?),
            acked: r.maybe("acknowledgement", |r| r.number("acknowledgement").map(WallMillis))?,
            order: r.number("place")?,
        })),
        6 => TaskState::Compacted { since: read_anchor(r)? },
        _ => return Err(CodecError::Invalid { what: "state of task" }),
    })
}

fn write_token(w: &mut Writer, token: Token) {
    w.number(token.attempt.into());
    w.fixed(&token.nonce.0);
}

fn read_token(r: &mut Reader<'_>) -> Read<Token> {
    Ok(Token { attempt: r.small("token")?, nonce: Nonce(r.fixed("token")?) })
}

fn write_how(w: &mut Writer, how: How) {
    match how {
        How::Posted(token) => {
            w.byte(1);
            write_token(w, token);
        }
        How::Replayed => w.byte(2),
        How::Joined(leader) => {
            w.byte(3);
            w.fixed(&leader.0);
        }
        How::Forced => w.byte(4),
        How::Expired => w.byte(5),
    }
}

fn read_how(r: &mut Reader<'_>) -> Read<How> {
    Ok(match r.byte("way of resolving")? {
        1 => How::Posted(read_token(r)?),
        2 => How::Replayed,
        3 => How::Joined(TaskId(r.fixed("leader")?)),
        4 => How::Forced,
        5 => How::Expired,
        _ => return Err(CodecError::Invalid { what: "way of resolving" }),
    })
}

pub(super) fn write_repair(w: &mut Writer, repair: &Repair) {
    match &repair.kind {
        RepairKind::Requeue { posture, auto } => {
            w.byte(1);
            w.byte(match posture {
                RepairPosture::Idempotent => 1,
                RepairPosture::OperatorAccepted => 2,
            });
            w.byte((*auto).into());
        }
        RepairKind::ForceError { message } => {
            w.byte(2);
            w.bytes(message.as_bytes());
        }
    }
    let (attempt, digest) = repair.lease.parts();
    w.number(attempt.into());
    w.fixed(&digest);
    w.text(&repair.actor);
    w.text(&repair.reason);
    w.number(repair.wall.0);
}

pub(super) fn read_repair(r: &mut Reader<'_>) -> Read<Repair> {
    let kind = match r.byte("repair")? {
        1 => {
            let posture = match r.byte("posture")? {
                1 => RepairPosture::Idempotent,
                2 => RepairPosture::OperatorAccepted,
                _ => return Err(CodecError::Invalid { what: "posture" }),
            };
            RepairKind::Requeue { posture, auto: r.flag("gate")? }
        }
        2 => RepairKind::ForceError { message: r.text("message")?.to_string() },
        _ => return Err(CodecError::Invalid { what: "repair" }),
    };
    Ok(Repair {
        kind,
        lease: LeaseId::from_parts(r.small("lease")?, r.fixed("lease")?),
        actor: r.text("actor")?,
        reason: r.text("reason")?,
        wall: WallMillis(r.number("time of repair")?),
    })
}
