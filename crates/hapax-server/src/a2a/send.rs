//! The sender's side: send, results, ack.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{WallMillis, task::Peer};
use hapax_queue::{Class, Idempotency, NewTask, Payload, QueueError, Sent, TaskId};

use super::{
    Reaches, not_granted, noted, peer, place_to_wait, problem, tenant, visible,
    wire::{self, DeliveryList, DeliveryWire, DoneWire, PeerWire, ResultWire, SendRequest, SentWire},
};
use crate::{
    app::{App, Asked},
    http::{Reply, answer, json},
    problem::Problem,
};

pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(super) async fn send(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: SendRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let sender = peer(&asked.caller, wanted.acting_as.as_deref())?;
    let needed = format!("a2a.send.{}", wanted.recipient.key);
    if !asked.caller.identity.a2a.allow(&needed, &Reaches::peer(&wanted.recipient.key)) {
        return Err(not_granted(&needed));
    }
    let uuid = |text: &str| TaskId::parse(text).ok_or_else(|| Problem::bad_request("`id` and `parent` are UUIDs"));
    let id = uuid(&wanted.id)?;
    let payload = match (&wanted.payload, &wanted.payload_base64) {
        (Some(value), None) => Payload { json: true, bytes: Bytes::copy_from_slice(value.get().as_bytes()) },
        (None, Some(text)) => Payload { json: false, bytes: bytes_of(text)? },
        (None, None) => Payload { json: true, bytes: Bytes::from_static(b"null") },
        (Some(_), Some(_)) => return Err(Problem::bad_request("give `payload` or `payload_base64`, not both")),
    };
    let named = |key: &str, display: Option<&str>| Peer { key: key.into(), display: display.unwrap_or(key).into() };
    let task = NewTask {
        id,
        sender: named(&sender, wanted.display.as_deref()),
        recipient: named(&wanted.recipient.key, wanted.recipient.display.as_deref()),
        kind: wanted.kind,
        intent: wanted.intent,
        payload,
        parent: wanted.parent.as_deref().map(uuid).transpose()?,
        deadline: wanted.deadline.map(WallMillis),
        idempotency: match wanted.idempotency {
            None => None,
            Some(given) => Some(Idempotency {
                class: Class::parse(&given.class)
                    .ok_or_else(|| Problem::bad_request("`class` is `idempotent` or `unsafe`"))?,
                key: given.key.into(),
            }),
        },
    };
    let queue = app.queue.get(app).await?;
    noted(app, &asked.caller, "a2a.send", &sender, &id.to_string()).await?;
    let sent = queue.send(tenant(&asked.caller), task).await.map_err(|error| problem(&error))?;
    let of = |status: &str, again, joined: Option<TaskId>, result| SentWire {
        id: id.to_string(),
        status: status.to_owned(),
        again,
        joined: joined.map(|leader| leader.to_string()),
        result,
    };
    Ok(answer(&match sent {
        Sent::Queued { again } => of("queued", again, None, None),
        Sent::Replayed { outcome, again } => of("replayed", again, None, Some(ResultWire::of(&outcome))),
        Sent::Joined { leader, again } => of("joined", again, Some(leader), None),
        Sent::AlreadyResolved => of("already_resolved", true, None, None),
    }))
}

pub(super) fn bytes_of(text: &str) -> Result<Bytes, Problem> {
    let decoded = data_encoding::BASE64.decode(text.as_bytes());
    decoded.map(Bytes::from).map_err(|_| Problem::bad_request("what is said to be base64 is not"))
}

pub(super) async fn results(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: wire::ResultsRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let sender = peer(&asked.caller, wanted.acting_as.as_deref())?;
    let queue = app.queue.get(app).await?;
    let wait = Duration::from_millis(wanted.wait_ms).min(LONGEST_WAIT);
    let _waits = place_to_wait(app, &asked.caller, wait)?;
    let mut stop = app.stop.clone();
    let found = tokio::select! {
        found = queue.results(tenant(&asked.caller), &sender, wanted.limit, wait) => found,
        () = crate::http::stopped(&mut stop) => Ok(Vec::new()),
    };
    let found = found.map_err(|error| problem(&error))?;
    let items = found.iter().map(|delivery| DeliveryWire {
        task: delivery.order.id.to_string(),
        kind: delivery.order.kind.to_string(),
        recipient: PeerWire {
            key: delivery.order.recipient.key.to_string(),
            display: Some(delivery.order.recipient.display.to_string()),
        },
        how: wire::how(delivery.how).to_owned(),
        attempt: delivery.attempt,
        at: delivery.wall.0,
        result: ResultWire::of(&delivery.outcome),
    });
    Ok(answer(&DeliveryList { items: items.collect() }))
}

pub(super) async fn ack(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: wire::AckRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let status = visible(app, &asked.caller, &wanted.task).await?;
    let order = &status.task.order;
    let mine = *order.sender.key == *asked.caller.identity.principal
        || asked.caller.identity.can(crate::auth::Capability::Admin);
    if !mine {
        return Err(problem(&QueueError::Unknown(order.id)));
    }
    let queue = app.queue.get(app).await?;
    noted(app, &asked.caller, "a2a.ack", &order.sender.key, &order.id.to_string()).await?;
    queue.ack(tenant(&asked.caller), order.id).await.map_err(|error| problem(&error))?;
    let already = status.state == hapax_queue::TaskStateName::Delivered;
    Ok(answer(&DoneWire { task: order.id.to_string(), already }))
}
