//! What needs a capability and leaves a row: repairs, the retry gate, compaction.

use hapax_core::{Millis, task::GateEntry};
use hapax_queue::{GatePolicy, GateReport, GateScope, LeaseId, QueueError, RepairKind, RepairPosture, Skip, Status};
use serde_json::json as value;

use super::{
    Reaches, not_granted, problem, reaches, sees_entry, tenant, visible,
    wire::{CompactRequest, CompactedWire, RepairRequest, RetryEntry, RetryReport, RetryRequest, StatusWire},
};
use crate::{
    api::note,
    app::{App, Asked},
    audit::Action,
    http::{Reply, answer, json},
    problem::Problem,
};

/// How many leases one pass looks at, however many are asked for: each is read, and the caller waits for all of them.
const MOST_SCANNED: u32 = 10_000;

pub(super) const fn name(kind: &RepairKind) -> &'static str {
    match kind {
        RepairKind::Requeue { auto: true, .. } => "auto_requeue",
        RepairKind::Requeue { auto: false, .. } => "requeue",
        RepairKind::ForceError { .. } => "force_error",
    }
}

pub(super) async fn repair(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: RepairRequest = json(&asked.headers, asked.body, &app.limits).await?;
    // An unknown task is refused before any capability is looked at.
    let status = visible(app, &asked.caller, &wanted.task).await?;
    let lease = LeaseId::parse(&wanted.lease_id)
        .ok_or_else(|| Problem::bad_request("`lease_id` is the one that the task's status names"))?;
    let kind = match (wanted.repair.as_str(), &wanted.posture, &wanted.message) {
        ("requeue", Some(posture), None) => RepairKind::Requeue {
            posture: RepairPosture::parse(posture)
                .ok_or_else(|| Problem::bad_request("`posture` is idempotent or operator_accepted"))?,
            auto: false,
        },
        ("force_error", None, Some(message)) => RepairKind::ForceError { message: message.clone() },
        ("requeue", _, _) => return Err(Problem::bad_request("`requeue` needs a `posture`, and no `message`")),
        ("force_error", _, _) => return Err(Problem::bad_request("`force_error` needs a `message`, and no `posture`")),
        (_, _, _) => return Err(Problem::bad_request("`repair` is requeue or force_error")),
    };
    let needed = format!("a2a.repair.{}", wanted.repair);
    if !asked.caller.identity.a2a.allow(&needed, &reaches(&status)) {
        return Err(not_granted(&needed));
    }
    if wanted.reason.trim().is_empty() {
        return Err(Problem::bad_request("`reason` is blank; say why"));
    }
    let (id, actor) = (status.task.order.id, asked.caller.identity.actor());
    let detail = value!({
        "repair": name(&kind),
        "posture": wanted.posture,
        "message": wanted.message,
        "lease_id": wanted.lease_id,
        "tenant": tenant(&asked.caller).as_str(),
        "attempt": status.task.attempt,
        "reason": wanted.reason,
    });
    note(app, &actor, Action::A2aRepair, &id.to_string(), detail).await?;
    let queue = app.queue.get(app).await?;
    match queue.repair(tenant(&asked.caller), id, lease, kind, &actor, &wanted.reason).await {
        // Told as it was left: a key that reaches this lease only would not see the task any more.
        Ok(task) => Ok(answer(&StatusWire::of(&Status::of(task, app.engine.moment().now)))),
        Err(error) => {
            note(app, &actor, Action::A2aRepairRefused, &id.to_string(), value!({ "lease_id": wanted.lease_id }))
                .await?;
            Err(problem(&error))
        }
    }
}

pub(super) async fn retry_stale(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: RetryRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let identity = &asked.caller.identity;
    let policy = GatePolicy {
        enabled: wanted.enable,
        min_lease_age: Millis(wanted.min_lease_age_ms),
        max_attempts: wanted.max_attempts,
        max_requeues: wanted.max_requeues,
        scan_limit: wanted.scan_limit,
    };
    if policy.scan_limit > MOST_SCANNED {
        return Err(Problem::bad_request(format!("`scan_limit` is at most {MOST_SCANNED}; run it again for more")));
    }
    let actor = identity.actor();
    let in_scope = |task: &hapax_core::task::Task| identity.a2a.allow("a2a.repair.requeue", &Reaches::of(task));
    let queue = app.queue.get(app).await?;
    if policy.enabled {
        let detail = value!({
            "tenant": tenant(&asked.caller).as_str(),
            "min_lease_age_ms": policy.min_lease_age.0,
            "max_attempts": policy.max_attempts,
            "max_requeues": policy.max_requeues,
            "scan_limit": policy.scan_limit,
        });
        note(app, &actor, Action::A2aRetryStale, "", detail).await?;
    }
    let noted = parking_lot::Mutex::new(Vec::new());
    let before = |entry: GateEntry| {
        let (actor, noted) = (actor.clone(), &noted);
        async move {
            auto_requeue(app, &actor, &entry).await?;
            noted.lock().push(entry.lease);
            Ok(())
        }
    };
    let report = queue.retry_stale(GateScope::Tenant(tenant(&asked.caller)), policy, &actor, in_scope, before).await;
    let mut report = report.map_err(|error| problem(&error))?;
    let noted = noted.into_inner();
    for spared in report.skipped.iter().filter(|one| noted.contains(&one.entry.lease)) {
        not_requeued(app, &actor, &spared.entry, spared.reason).await.map_err(|error| problem(&error))?;
    }
    report.keep(|entry| sees_entry(&asked.caller, entry));
    Ok(answer(&told(&report)))
}

/// The row of one automatic requeue, on disk before it is done.
pub(super) async fn auto_requeue(app: &App, actor: &str, entry: &GateEntry) -> Result<(), QueueError> {
    let detail = value!({
        "repair": "auto_requeue",
        "lease_id": entry.lease.map(|lease| lease.to_string()),
        "tenant": &*entry.tenant,
        "attempt": entry.attempt,
        "lease_age_ms": entry.lease_age.map(|age| age.0),
    });
    let noted = note(app, actor, Action::A2aRepair, &entry.task.to_string(), detail).await;
    noted.map_err(|_| QueueError::Busy(entry.task))
}

/// The row of one that was not done after all: its worker came back before its lease could be fenced.
pub(super) async fn not_requeued(app: &App, actor: &str, entry: &GateEntry, why: Skip) -> Result<(), QueueError> {
    let detail = value!({ "lease_id": entry.lease.map(|lease| lease.to_string()), "reason": why.name() });
    let noted = note(app, actor, Action::A2aRepairRefused, &entry.task.to_string(), detail).await;
    noted.map_err(|_| QueueError::Busy(entry.task))
}

fn told(report: &GateReport) -> RetryReport {
    let entry = |entry: &GateEntry, reason: Option<String>| RetryEntry {
        task: entry.task.to_string(),
        lease_id: entry.lease.map(|lease| lease.to_string()),
        attempt: entry.attempt,
        lease_age_ms: entry.lease_age.map(|age| age.0),
        reason,
    };
    RetryReport {
        enabled: report.policy.enabled,
        min_lease_age_ms: report.policy.min_lease_age.0,
        max_attempts: report.policy.max_attempts,
        max_requeues: report.policy.max_requeues,
        scan_limit: report.policy.scan_limit,
        considered: report.considered,
        requeued: report.requeued.iter().map(|one| entry(one, None)).collect(),
        skipped: report.skipped.iter().map(|one| entry(&one.entry, Some(one.reason.name().to_owned()))).collect(),
    }
}

pub(super) async fn compact(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let CompactRequest {} = json(&asked.headers, asked.body, &app.limits).await?;
    if !asked.caller.identity.a2a.allow("a2a.compact", &Reaches::default()) {
        return Err(not_granted("a2a.compact"));
    }
    let queue = app.queue.get(app).await?;
    let whose = tenant(&asked.caller);
    // Written down before it is done; where there is nothing to do, nothing is.
    if queue.has_compactable(whose).await.map_err(|error| problem(&error))? {
        let detail = value!({ "tenant": whose.as_str() });
        note(app, &asked.caller.identity.actor(), Action::A2aCompact, "", detail).await?;
    }
    let done = queue.compact(Some(whose)).await.map_err(|error| problem(&error))?;
    Ok(answer(&CompactedWire { looked_at: done.looked_at, compacted: done.compacted, kept: done.kept }))
}
