//! The queue between agents over HTTP. Who a caller is comes from its key: peers see only tasks that they send or receive.

mod endpoints;
mod grants;
mod log;
mod refused;
mod repair;
mod scheduler;
mod send;
mod view;
pub mod wire;
mod work;

use std::{sync::Arc, time::Duration};

use hapax_core::{
    Millis,
    identity::Tenant,
    task::{GateEntry, SURFACE, TASK_SURFACE, TaskId},
};
use hapax_queue::{Queue, QueueError, QueueSettings, Status};

use serde_json::json;

use crate::{
    api::note,
    app::{App, Asked, Caller},
    audit::Action,
    auth::{Capability, Identity, Waits},
    http::Reply,
    problem::Problem,
};

pub(crate) use endpoints::{Act, ENDPOINTS};
pub(crate) use grants::{Grants, Reaches};
pub(crate) use refused::{decided_here, not_granted, problem};
pub use scheduler::SCHEDULER_CAPABILITY;
pub(crate) use view::overview;

/// The queue, opened when it is first asked for: a store that cannot keep one serves everything else all the same.
pub(crate) struct LazyQueue {
    settings: QueueSettings,
    opened: tokio::sync::OnceCell<Queue>,
}

impl LazyQueue {
    pub(crate) fn new(settings: QueueSettings) -> Self {
        Self { settings, opened: tokio::sync::OnceCell::new() }
    }

    pub(crate) async fn get(&self, app: &App) -> Result<&Queue, Problem> {
        self.open(app).await.map_err(|error| problem(&error))
    }

    async fn open(&self, app: &App) -> Result<&Queue, QueueError> {
        self.opened.get_or_try_init(|| Queue::open(&app.engine, self.settings.clone())).await
    }
}

/// Whether a surface belongs to the queue.
pub(crate) fn is_ours(surface: &str) -> bool {
    [SURFACE, TASK_SURFACE].contains(&surface)
}

/// An operation of the queue says whose task it is, how it goes and how it ends. Peers see their own tasks as tasks; the
/// operations behind all of them are for those who look after the tenant.
pub(crate) fn sees_operations_of(identity: &Identity, surface: &str) -> bool {
    !is_ours(surface) || identity.can(Capability::Admin) || identity.can(Capability::Resolve)
}

pub(crate) async fn answer(app: &App, act: Act, asked: Asked) -> Result<Reply, Problem> {
    crate::agents::may_use(&asked.caller, SURFACE)?;
    match act {
        Act::Send => send::send(app, asked).await,
        Act::Lease => work::lease(app, asked).await,
        Act::Renew => work::renew(app, asked).await,
        Act::Release => work::release(app, asked).await,
        Act::Post => work::post(app, asked).await,
        Act::Results => send::results(app, asked).await,
        Act::Ack => send::ack(app, asked).await,
        Act::Tasks => view::tasks(app, asked).await,
        Act::Task => view::task(app, asked).await,
        Act::Repair => repair::repair(app, asked).await,
        Act::RetryStale => repair::retry_stale(app, asked).await,
        Act::Compact => repair::compact(app, asked).await,
        Act::Export => log::export(app, asked).await,
        Act::Import => log::import(app, asked).await,
    }
}

/// The peer that the caller acts as: its principal, or, for administrators, whom they name.
pub(crate) fn peer(caller: &Caller, named: Option<&str>) -> Result<Arc<str>, Problem> {
    match named {
        None => Ok(Arc::clone(&caller.identity.principal)),
        Some(name) if *name == *caller.identity.principal => Ok(name.into()),
        Some(name) if caller.identity.can(Capability::Admin) => Ok(name.into()),
        Some(_) => Err(Problem::forbidden("only an administrator acts as another peer; leave out `as`")),
    }
}

/// A row in the audit log, where somebody is about to act in the queue as a peer that they are not.
pub(crate) async fn noted(app: &App, caller: &Caller, step: &str, peer: &str, task: &str) -> Result<(), Problem> {
    // Without keys everybody is everybody, as the daemon has said at its start.
    let named = caller.is_administrator() || caller.identity.digest.is_some();
    if !named || *peer == *caller.identity.principal {
        return Ok(());
    }
    let detail = json!({ "step": step, "as_peer": peer, "tenant": tenant(caller).as_str() });
    note(app, &caller.identity.actor(), Action::Operate, task, detail).await
}

pub(crate) fn tenant(caller: &Caller) -> &Tenant {
    &caller.identity.tenant
}

/// A place among those of the tenant that wait for tasks and results; none is needed by who does not wait.
pub(crate) fn place_to_wait(app: &App, caller: &Caller, wait: Duration) -> Result<Option<Waits>, Problem> {
    if wait.is_zero() {
        return Ok(None);
    }
    let most = app.limits.queue_waiters_per_tenant;
    let full = "as many callers of this tenant wait for tasks and results as may; come back, or ask without `wait_ms`";
    let place = caller.identity.state.wait(most).ok_or_else(|| Problem::too_many(full, Millis::from_secs(1)))?;
    Ok(Some(place))
}

/// A task that the caller may see. One that is not there and one that is somebody else's get the same answer.
pub(crate) async fn visible(app: &App, caller: &Caller, id: &str) -> Result<Status, Problem> {
    let unknown = || problem(&QueueError::Unknown(TaskId([0; 16])));
    let id = TaskId::parse(id).ok_or_else(unknown)?;
    let queue = app.queue.get(app).await?;
    let status = match queue.task(tenant(caller), id).await {
        Err(QueueError::Unknown(_)) => return Err(unknown()),
        other => other.map_err(|error| problem(&error))?,
    };
    if sees(caller, &status) { Ok(status) } else { Err(unknown()) }
}

/// What one sends, receives or holds. Who repairs or looks after the tenant sees all of its tasks.
pub(crate) fn sees(caller: &Caller, status: &Status) -> bool {
    let order = &status.task.order;
    sees_between(caller, &order.sender.key, &order.recipient.key, &reaches(status))
}

/// As [`sees`], of an entry of the retry gate's report.
pub(crate) fn sees_entry(caller: &Caller, entry: &GateEntry) -> bool {
    sees_between(caller, &entry.sender, &entry.recipient, &Reaches::of_entry(entry))
}

fn sees_between(caller: &Caller, sender: &str, recipient: &str, reaches: &Reaches) -> bool {
    let me = &*caller.identity.principal;
    sender == me
        || recipient == me
        || caller.identity.can(Capability::Admin)
        || caller.identity.can(Capability::Resolve)
        || caller.identity.a2a.reaches_repair(reaches)
}

pub(crate) fn reaches(status: &Status) -> Reaches {
    Reaches::of(&status.task)
}
