use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hapax_core::{
    Effect, Id, Millis, Moment,
    identity::{Surface, Tenant},
    policy::{Mode, OnLapse},
    record::About,
    task::{Order, SURFACE, TASK_SURFACE, Task, TaskCommand, TaskReply, apply_task, tenant_tag},
};
use hapax_engine::{Call, Engine, EngineError, Looked, Policies, Wait};
use hapax_store::Level;

use crate::{NewTask, QueueError, dispatch::Dispatch};

/// How the queue behaves in this process.
#[derive(Clone, Debug)]
pub struct QueueSettings {
    /// The longest payload and the longest result, in bytes.
    pub max_payload: usize,
    /// How many tasks all tenants together may have, compacted ones not counted.
    pub max_tasks: u64,
    /// How many of them one tenant may have; a tenth if `None`.
    pub max_tasks_per_tenant: Option<u64>,
    /// How long a lease is that names no length.
    pub lease: Millis,
    /// Whether an overdue task that nobody began ends with an error; otherwise it is only reported.
    pub expire_overdue: bool,
    /// How often a waiting worker looks for what other processes have sent. Where this process alone writes to the
    /// store it never has to.
    pub look_again: Duration,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            max_payload: 256 * 1024,
            max_tasks: 10_000_000,
            max_tasks_per_tenant: None,
            lease: Millis::from_secs(60),
            expire_overdue: false,
            look_again: Duration::from_millis(500),
        }
    }
}

impl QueueSettings {
    /// How many tasks one tenant may have.
    #[must_use]
    pub fn share(&self) -> u64 {
        self.max_tasks_per_tenant.unwrap_or((self.max_tasks / 10).max(1)).min(self.max_tasks)
    }
}

/// The queue over one engine. Cloning it gives another handle to the same queue.
#[derive(Clone)]
pub struct Queue {
    pub(crate) engine: Engine,
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) settings: QueueSettings,
    pub(crate) dispatch: Dispatch,
    pub(crate) surface: Surface,
    last_place: AtomicU64,
    pub(crate) room: crate::room::Room,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Queue {
    /// Opens the queue on an engine. The store has to keep lists, and the policy of `a2a` must not hand work out again
    /// by itself.
    pub async fn open(engine: &Engine, settings: QueueSettings) -> Result<Self, QueueError> {
        if engine.store().level() < Level::Full {
            return Err(QueueError::UnfitStore(engine.store().name()));
        }
        Self::check(&engine.policies())?;
        // Asking for an id that nobody has tells the time: places in a queue are made of it.
        engine.operation(&Id([0; 32])).await?;
        let inner = Inner {
            settings,
            dispatch: Dispatch::default(),
            surface: Surface::new(TASK_SURFACE).map_err(EngineError::from)?,
            last_place: AtomicU64::new(0),
            room: crate::room::Room::default(),
        };
        Ok(Self { engine: engine.clone(), inner: Arc::new(inner) })
    }

    /// Whether the queue can be used under these policies: whoever puts new ones in force asks before.
    pub fn check(policies: &Policies) -> Result<(), QueueError> {
        let decides = Surface::new(SURFACE).map_err(EngineError::from)?;
        let policy = policies.of(&decides);
        if policy.lapse_for(Effect::Idempotent) != OnLapse::Stale {
            return Err(QueueError::UnfitPolicy("`on_lapse` is not `stale`"));
        }
        if policy.mode != Mode::Enforce {
            return Err(QueueError::UnfitPolicy("it runs in shadow mode"));
        }
        Ok(())
    }

    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    #[must_use]
    pub fn settings(&self) -> &QueueSettings {
        &self.inner.settings
    }

    /// A place behind all that this process has given out, in the order of the store's time.
    pub(crate) fn place(&self) -> u64 {
        let now = self.engine.moment().now.0 << 20;
        let last = self.inner.last_place.fetch_update(Relaxed, Relaxed, |last| Some(now.max(last + 1)));
        now.max(last.unwrap_or(0) + 1)
    }

    pub(crate) fn about(&self, tenant: &Tenant) -> Result<Arc<About>, QueueError> {
        let tenant_tag = tenant_tag(tenant).unwrap_or(hapax_core::Tag([0; 16]));
        Ok(Arc::new(About {
            surface: TASK_SURFACE.into(),
            tenant: tenant.as_str().into(),
            surface_tag: hapax_core::Tag::surface(&self.inner.surface),
            tenant_tag,
            principal: None,
            key_hash: [0; 8],
        }))
    }

    /// The operation that decides about idempotent work under a key, and caches its result.
    pub(crate) fn cache_call(&self, tenant: &Tenant, sender: &str, recipient: &str, kind: &str, key: &str) -> Call {
        let scope = self.engine.surface(SURFACE).tenant(tenant);
        let scope = scope.within("sender", sender).within("recipient", recipient).within("kind", kind);
        scope.key(key).effect(Effect::Idempotent).wait(Wait::No)
    }

    pub(crate) fn cache_of_new(&self, tenant: &Tenant, task: &NewTask) -> Result<Id, QueueError> {
        let key = task.idempotency.as_ref().map_or("", |idempotency| &*idempotency.key);
        Ok(self.cache_call(tenant, &task.sender.key, &task.recipient.key, &task.kind, key).id()?)
    }

    pub(crate) fn cache_of(&self, task: &Task) -> Result<Call, QueueError> {
        let order: &Order = &task.order;
        let tenant = Tenant::new(&task.about.tenant).map_err(EngineError::from)?;
        let key = order.idempotency.as_ref().map_or("", |idempotency| &*idempotency.key);
        let call = self.cache_call(&tenant, &order.sender.key, &order.recipient.key, &order.kind, key);
        Ok(call.fingerprinted(order.print.clone()))
    }

    pub(crate) async fn look(&self, record: &Id) -> Result<Looked<Task>, QueueError> {
        Ok(self.engine.look_at(record).await?)
    }

    /// Applies one command to a task; the task as it stands after it.
    pub(crate) async fn apply(
        &self,
        record: &Id,
        command: &TaskCommand,
    ) -> Result<(TaskReply, Option<Task>), QueueError> {
        Ok(self.engine.decide(record, judge(command)).await?)
    }

    pub(crate) async fn apply_from(
        &self,
        record: &Id,
        looked: Looked<Task>,
        command: &TaskCommand,
    ) -> Result<(TaskReply, Option<Task>), QueueError> {
        Ok(self.engine.decide_from(record, looked, judge(command)).await?)
    }
}

/// What is to be written, what is replied, and what the task is after it.
type Judged = (Option<Task>, (TaskReply, Option<Task>));

/// Lets the rules judge a command, and keeps what the task is after it.
pub(crate) fn judge(command: &TaskCommand) -> impl FnMut(Option<&Task>, Moment) -> Judged + Send {
    move |task, moment| {
        let step = apply_task(task, command, moment);
        let after = step.write.clone().map(|mut next| {
            next.settle(moment.now);
            next
        });
        let after = after.or_else(|| task.cloned());
        (step.write, (step.reply, after))
    }
}
