//! The bytes of one task, format 1, and where a store lists it.

use std::sync::Arc;

use hapax_core::{
    Id, Millis, Span, WallMillis,
    task::{
        Class, Deadline, EVIDENCE_KEPT, Idempotency, Order, Payload, Peer, REPAIRS_KEPT, STONE_KEPT, Task,
        TaskEvidence, TaskId, TaskState, compactable_tag, compactable_tag_of, joined_tag, leased_tag, leased_tag_of,
        queue_tag, request_tag, results_tag, waiting_tag_of,
    },
};

use super::{
    due,
    operation::{
        read_about, read_anchor, read_outcome, read_print, write_about, write_anchor, write_outcome, write_print,
    },
    read::{CodecError, Read, Reader},
    task_state::{read_repair, read_state, write_repair, write_state},
    write::Writer,
};
use crate::{Counted, Entry, Envelope, Kind, List};

const FORMAT: u8 = 1;

/// Wraps a task for a store, which lists it where somebody looks for a task in its state.
#[must_use]
pub fn seal_task(task: &Task) -> Envelope {
    let stone = match task.state {
        TaskState::Compacted { since } => due(since, STONE_KEPT),
        TaskState::Sent { .. }
        | TaskState::Joined { .. }
        | TaskState::Queued { .. }
        | TaskState::Leased(_)
        | TaskState::Resolved(_) => None,
    };
    let waits = matches!(task.state, TaskState::Sent { .. } | TaskState::Queued { .. } | TaskState::Joined { .. });
    let deadline = task.order.deadline.filter(|deadline| waits && deadline.expires);
    Envelope {
        kind: Kind::TASK,
        surface: task.about.surface_tag,
        tenant: task.about.tenant_tag,
        counted: match task.state {
            TaskState::Compacted { .. } => Counted::Tombstone,
            TaskState::Sent { .. }
            | TaskState::Joined { .. }
            | TaskState::Queued { .. }
            | TaskState::Leased(_)
            | TaskState::Resolved(_) => Counted::Record,
        },
        lease_end: None,
        expiry: stone.or_else(|| deadline.and_then(|deadline| due(task.sent, Span::For(deadline.after)))),
        gone: stone,
        in_doubt: false,
        entries: entries(task),
        beside: 0,
        payload: encode(task),
    }
}

fn entries(task: &Task) -> Vec<Entry> {
    let tenant = &task.about.tenant;
    let queue = |tag, order| Entry { list: List::Queue, tag, order };
    let group = |tag| Entry { list: List::Group, tag, order: 0 };
    match &task.state {
        TaskState::Sent { order } | TaskState::Queued { order } => {
            vec![queue(queue_tag(tenant, &task.order.recipient.key), *order), queue(waiting_tag_of(tenant), *order)]
        }
        TaskState::Joined { leader } => vec![group(joined_tag(tenant, leader))],
        TaskState::Leased(leased) => {
            let mut all = vec![queue(leased_tag(), leased.order), queue(leased_tag_of(tenant), leased.order)];
            let request = leased.request.map(|request| request_tag(tenant, &task.order.recipient.key, &request));
            all.extend(request.map(group));
            all
        }
        TaskState::Resolved(resolved) if resolved.acked.is_some() => {
            vec![queue(compactable_tag(), resolved.order), queue(compactable_tag_of(tenant), resolved.order)]
        }
        TaskState::Resolved(resolved) => {
            vec![queue(results_tag(tenant, &task.order.sender.key), resolved.order)]
        }
        TaskState::Compacted { .. } => Vec::new(),
    }
}

/// Reads back what [`seal_task`] wrote.
pub fn open_task(envelope: &Envelope) -> Result<Task, CodecError> {
    if envelope.kind != Kind::TASK {
        return Err(CodecError::Invalid { what: "kind of record" });
    }
    let mut r = Reader::open(&envelope.payload, FORMAT)?;
    let task = Task {
        about: Arc::new(read_about(&mut r, envelope.surface, envelope.tenant)?),
        order: Arc::new(read_order(&mut r)?),
        state: read_state(&mut r)?,
        attempt: r.small("attempt")?,
        number: r.small("token number")?,
        sent: read_anchor(&mut r)?,
        sent_wall: WallMillis(r.number("time of sending")?),
        repairs: r.list("repairs", REPAIRS_KEPT, read_repair)?,
        evidence: r.list("evidence", EVIDENCE_KEPT, |r| {
            Ok(TaskEvidence {
                attempt: r.small("evidence attempt")?,
                outcome: read_outcome(r)?,
                wall: WallMillis(r.number("evidence time")?),
            })
        })?,
    };
    r.finish()?;
    Ok(task)
}

fn encode(task: &Task) -> bytes::Bytes {
    let mut w = Writer::new();
    w.byte(FORMAT);
    write_about(&mut w, &task.about);
    write_order(&mut w, &task.order);
    write_state(&mut w, &task.state);
    w.number(task.attempt.into());
    w.number(task.number.into());
    write_anchor(&mut w, task.sent);
    w.number(task.sent_wall.0);
    w.number(task.repairs.len() as u64);
    for repair in &task.repairs {
        write_repair(&mut w, repair);
    }
    w.number(task.evidence.len() as u64);
    for kept in &task.evidence {
        w.number(kept.attempt.into());
        write_outcome(&mut w, &kept.outcome);
        w.number(kept.wall.0);
    }
    w.sealed()
}

fn write_order(w: &mut Writer, order: &Order) {
    w.fixed(&order.id.0);
    for peer in [&order.sender, &order.recipient] {
        w.text(&peer.key);
        w.text(&peer.display);
    }
    w.text(&order.kind);
    w.text(&order.intent);
    w.byte(order.payload.json.into());
    w.bytes(&order.payload.bytes);
    write_print(w, &order.print);
    w.maybe(order.parent.as_ref(), |w, parent| w.fixed(&parent.0));
    w.maybe(order.deadline, |w, deadline| {
        w.number(deadline.wall.0);
        w.number(deadline.after.0);
        w.byte(deadline.expires.into());
    });
    w.maybe(order.idempotency.as_ref(), |w, idempotency| {
        w.byte(match idempotency.class {
            Class::Idempotent => 1,
            Class::Unsafe => 2,
        });
        w.text(&idempotency.key);
    });
    w.maybe(order.cache.as_ref(), |w, cache| w.fixed(&cache.0));
    w.fixed(&order.digest);
}

fn read_order(r: &mut Reader<'_>) -> Read<Order> {
    Ok(Order {
        id: TaskId(r.fixed("task id")?),
        sender: Peer { key: r.text("sender")?, display: r.text("sender")? },
        recipient: Peer { key: r.text("recipient")?, display: r.text("recipient")? },
        kind: r.text("kind of task")?,
        intent: r.text("intent")?,
        payload: Payload { json: r.flag("kind of payload")?, bytes: r.bytes("payload")? },
        print: read_print(r)?,
        parent: r.maybe("parent", |r| r.fixed("parent").map(TaskId))?,
        deadline: r.maybe("deadline", |r| {
            Ok(Deadline {
                wall: WallMillis(r.number("deadline")?),
                after: Millis(r.number("deadline")?),
                expires: r.flag("deadline")?,
            })
        })?,
        idempotency: r.maybe("idempotency", |r| {
            let class = match r.byte("class")? {
                1 => Class::Idempotent,
                2 => Class::Unsafe,
                _ => return Err(CodecError::Invalid { what: "class" }),
            };
            Ok(Idempotency { class, key: r.text("idempotency key")? })
        })?,
        cache: r.maybe("cache", |r| r.fixed("cache").map(Id))?,
        digest: r.fixed("digest")?,
    })
}
