//! Tasks between agents: `hapax a2a …`.

mod args;
mod log;
mod told;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};

use super::{
    op::{encoded, get},
    reach::Reach,
    show,
};
use crate::failure::Failure;

pub(crate) use args::A2a;
use args::{Lease, Post, Repair, RetryStale, Send, Status};

pub(super) async fn run(command: A2a) -> Result<(), Failure> {
    match command {
        A2a::Send(send) => send_task(*send).await,
        A2a::Lease(lease) => lease_tasks(lease).await,
        A2a::Renew { task, token, lease_ms, reach } => {
            let said = json!({ "task": task, "token": token, "lease_ms": lease_ms });
            post(&reach, "/v1/a2a/renew", &said, |_| outln!("renewed")).await
        }
        A2a::Release { task, token, reach } => {
            let said = json!({ "task": task, "token": token });
            post(&reach, "/v1/a2a/release", &said, |_| outln!("given back")).await
        }
        A2a::Post(result) => post_result(result).await,
        A2a::Results { acting_as, limit, wait_ms, reach } => {
            let said = json!({ "as": acting_as, "limit": limit, "wait_ms": wait_ms });
            post(&reach, "/v1/a2a/results", &said, told::results).await
        }
        A2a::Ack { task, reach } => {
            post(&reach, "/v1/a2a/ack", &json!({ "task": task }), |_| outln!("acknowledged")).await
        }
        A2a::Status(status) => show_status(status).await,
        A2a::Repair(repair) => repair_task(*repair).await,
        A2a::RetryStale(retry) => retry_stale(retry).await,
        A2a::Compact { reach } => post(&reach, "/v1/a2a/compact", &json!({}), told::compacted).await,
        A2a::Export { file, reach } => log::export(&reach, &file).await,
        A2a::Import { file, reach } => log::import(&reach, &file).await,
    }
}

async fn post(reach: &Reach, path: &str, said: &Value, tell: impl FnOnce(&Value)) -> Result<(), Failure> {
    let answered: Value = reach.ask(async |client| Ok(client.post(path, said).await?)).await?;
    if reach.json {
        show::json(&answered);
    } else {
        tell(&answered);
    }
    Ok(())
}

fn random() -> Result<[u8; 16], Failure> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| Failure::Flag("a2a", error.to_string()))?;
    Ok(bits)
}

async fn send_task(send: Send) -> Result<(), Failure> {
    let id = match send.id {
        Some(id) => id,
        None => hapax_queue::TaskId::random(random()?).to_string(),
    };
    let payload: Value = match &send.payload {
        None => Value::Null,
        Some(text) => serde_json::from_str(text)
            .map_err(|error| Failure::Flag("--payload", format!("it is not JSON: {error}")))?,
    };
    let mut said = json!({
        "id": id,
        "recipient": { "key": send.recipient },
        "kind": send.kind,
        "intent": send.intent.unwrap_or_default(),
        "payload": payload,
        "parent": send.parent,
        "deadline": send.deadline,
        "as": send.acting_as,
    });
    if let Some(key) = send.key {
        let class = if send.unsafe_to_repeat { "unsafe" } else { "idempotent" };
        said["idempotency"] = json!({ "class": class, "key": key });
    }
    post(&send.reach, "/v1/a2a/send", &said, told::sent).await
}

async fn lease_tasks(lease: Lease) -> Result<(), Failure> {
    let said = json!({
        "as": lease.acting_as,
        "worker": lease.worker,
        "limit": lease.limit,
        "lease_ms": lease.lease_ms,
        "wait_ms": lease.wait_ms,
        "request": HEXLOWER.encode(&random()?),
    });
    post(&lease.reach, "/v1/a2a/lease", &said, told::handed).await
}

async fn post_result(result: Post) -> Result<(), Failure> {
    let mut said = json!({ "task": result.task, "token": result.token, "status": result.status });
    match (&result.json_result, &result.text) {
        (Some(text), None) => {
            said["json"] = serde_json::from_str(text)
                .map_err(|error| Failure::Flag("--result", format!("it is not JSON: {error}")))?;
        }
        (None, Some(text)) => said["text"] = text.as_str().into(),
        (None, None) => {}
        (Some(_), Some(_)) => return Err(Failure::Flag("--result", "give it or --text, not both".to_owned())),
    }
    post(&result.reach, "/v1/a2a/post", &said, |done| {
        outln!("posted{}", if done["already"] == true { "; it had been before" } else { "" });
    })
    .await
}

async fn show_status(status: Status) -> Result<(), Failure> {
    let path = match &status.task {
        Some(task) => format!("/v1/a2a/task?id={}", encoded(task)),
        None => {
            let mut path = format!("/v1/a2a/tasks?limit={}", status.limit);
            let age = status.min_lease_age_ms.map(|age| age.to_string());
            let overdue = status.overdue.then(|| "true".to_owned());
            for (name, value) in [
                ("state", &status.state),
                ("kind", &status.kind),
                ("peer", &status.peer),
                ("min_lease_age_ms", &age),
                ("overdue", &overdue),
                ("cursor", &status.cursor),
            ] {
                if let Some(value) = value {
                    path.push_str(&format!("&{name}={}", encoded(value)));
                }
            }
            path
        }
    };
    let found = status.reach.ask(async |client| get(client, &path).await).await?;
    match (status.reach.json, status.task.is_some()) {
        (true, _) => show::json(&found),
        (false, true) => told::one(&found),
        (false, false) => told::many(&found),
    }
    Ok(())
}

async fn repair_task(repair: Repair) -> Result<(), Failure> {
    let said = json!({
        "task": repair.task,
        "lease_id": repair.lease_id,
        "repair": repair.repair,
        "posture": repair.posture,
        "message": repair.message,
        "reason": repair.reason,
    });
    post(&repair.reach, "/v1/a2a/repair", &said, told::one).await
}

async fn retry_stale(retry: RetryStale) -> Result<(), Failure> {
    let said = json!({
        "enable": retry.enable,
        "min_lease_age_ms": retry.min_lease_age_ms,
        "max_attempts": retry.max_attempts,
        "max_requeues": retry.max_requeues,
        "scan_limit": retry.scan_limit,
    });
    post(&retry.reach, "/v1/a2a/retry-stale", &said, told::retried).await
}
