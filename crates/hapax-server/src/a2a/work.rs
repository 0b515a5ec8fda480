//! The worker's side: lease, renew, release, post.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{Millis, Token};
use hapax_queue::{LeaseRequest, Status, TaskResult};

use super::{
    not_granted, noted, peer, place_to_wait, problem, reaches,
    send::{LONGEST_WAIT, bytes_of},
    tenant, visible,
    wire::{DoneWire, HandedList, HandedWire, LeaseRequestWire, PostRequestWire, TaskWire, TokenRequestWire},
};
use crate::{
    app::{App, Asked, Caller},
    http::{Reply, answer, json},
    problem::Problem,
};

pub(super) async fn lease(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: LeaseRequestWire = json(&asked.headers, asked.body, &app.limits).await?;
    let recipient = peer(&asked.caller, wanted.acting_as.as_deref())?;
    let senders = asked.caller.identity.a2a.senders();
    if senders.as_ref().is_some_and(Vec::is_empty) {
        return Err(not_granted("a2a.recv.<sender>"));
    }
    let request = match &wanted.request {
        None => None,
        Some(text) => {
            let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
            let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
            Some(bytes.ok_or_else(|| Problem::bad_request("`request` is 32 hexadecimal digits"))?)
        }
    };
    let request = LeaseRequest {
        worker: wanted.worker.unwrap_or_else(|| asked.caller.identity.name.to_string()),
        limit: wanted.limit,
        lease: wanted.lease_ms.map(Millis),
        wait: Duration::from_millis(wanted.wait_ms).min(LONGEST_WAIT),
        request,
        senders,
        ..LeaseRequest::of(&recipient, "-")
    };
    let queue = app.queue.get(app).await?;
    let _waits = place_to_wait(app, &asked.caller, request.wait)?;
    noted(app, &asked.caller, "a2a.lease", &recipient, "").await?;
    // A stop ends the waiting and nothing else: what is being leased is told. A caller who leaves does not end this either;
    // it asks again under the same `request` and is told what it took.
    let mut stop = app.stop.clone();
    let leased = queue.lease_until(tenant(&asked.caller), &request, crate::http::stopped(&mut stop));
    let handed = leased.await.map_err(|error| problem(&error))?;
    let items = handed.iter().map(|one| HandedWire {
        task: TaskWire::of(&one.order),
        lease_id: one.lease_id.to_string(),
        token: one.token.to_text(),
        attempt: one.attempt,
        lease_ms: one.lease.0,
        forward_key: one.forward_key.clone(),
    });
    Ok(answer(&HandedList { items: items.collect() }))
}

/// The task and the token, if the caller may answer for it.
async fn held(app: &App, caller: &Caller, step: &str, task: &str, token: &str) -> Result<(Status, Token), Problem> {
    let status = visible(app, caller, task).await?;
    let needed = format!("a2a.respond.{}", status.task.order.sender.key);
    if !caller.identity.a2a.allow(&needed, &reaches(&status)) {
        return Err(not_granted(&needed));
    }
    let token = Token::parse(token).ok_or_else(|| Problem::bad_request("`token` is not one that a lease gave"))?;
    let (recipient, id) = (&status.task.order.recipient.key, status.task.order.id.to_string());
    noted(app, caller, step, recipient, &id).await?;
    Ok((status, token))
}

pub(super) async fn renew(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: TokenRequestWire = json(&asked.headers, asked.body, &app.limits).await?;
    let (status, token) = held(app, &asked.caller, "a2a.renew", &wanted.task, &wanted.token).await?;
    let queue = app.queue.get(app).await?;
    let lease = wanted.lease_ms.map_or(queue.settings().lease, Millis);
    let id = status.task.order.id;
    queue.renew(tenant(&asked.caller), id, token, lease).await.map_err(|error| problem(&error))?;
    Ok(answer(&DoneWire { task: id.to_string(), already: false }))
}

pub(super) async fn release(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: TokenRequestWire = json(&asked.headers, asked.body, &app.limits).await?;
    let (status, token) = held(app, &asked.caller, "a2a.release", &wanted.task, &wanted.token).await?;
    let queue = app.queue.get(app).await?;
    let id = status.task.order.id;
    queue.release(tenant(&asked.caller), id, token).await.map_err(|error| problem(&error))?;
    Ok(answer(&DoneWire { task: id.to_string(), already: false }))
}

pub(super) async fn post(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: PostRequestWire = json(&asked.headers, asked.body, &app.limits).await?;
    let (status, token) = held(app, &asked.caller, "a2a.post", &wanted.task, &wanted.token).await?;
    let (is_json, body) = match (&wanted.json, &wanted.text, &wanted.base64) {
        (Some(value), None, None) => (true, Bytes::copy_from_slice(value.get().as_bytes())),
        (None, Some(text), None) => (false, Bytes::copy_from_slice(text.as_bytes())),
        (None, None, Some(text)) => (false, bytes_of(text)?),
        (None, None, None) => (false, Bytes::new()),
        _ => return Err(Problem::bad_request("give one of `json`, `text` and `base64`")),
    };
    let result = match wanted.status.as_str() {
        "completed" => TaskResult::completed(is_json, body),
        "partial" => TaskResult::partial(is_json, body),
        "failed" => TaskResult::failed(&String::from_utf8_lossy(&body)),
        _ => return Err(Problem::bad_request("`status` is completed, partial or failed")),
    };
    let queue = app.queue.get(app).await?;
    let id = status.task.order.id;
    let posted = queue.post(tenant(&asked.caller), id, token, result).await.map_err(|error| problem(&error))?;
    Ok(answer(&DoneWire { task: id.to_string(), already: posted.already }))
}
