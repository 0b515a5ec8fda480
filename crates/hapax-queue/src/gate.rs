//! The retry gate: one pass over what is in flight, oldest lease first. Off, it is a true preview.

use std::future::Future;

use hapax_core::{
    Id, Moment, Stamp,
    identity::Tenant,
    task::{
        GateEntry, GatePolicy, GateReport, Next, RepairKind, RepairPosture, Skip, Skipped, Task, apply_task,
        judge_gate, leased_tag, leased_tag_of,
    },
};
use hapax_engine::EngineError;
use hapax_store::{Cursor, Index};

use crate::{
    Queue, QueueError,
    repair::{Mend, Mended},
};

/// Whose leases a pass looks at.
#[derive(Clone, Copy, Debug)]
pub enum GateScope<'a> {
    All,
    Tenant(&'a Tenant),
}

impl Queue {
    /// One pass of the retry gate. `in_scope` says whether the caller's capability reaches a task; `before` is asked
    /// right before each requeue, and what it refuses is not done.
    pub async fn retry_stale<F, A>(
        &self,
        scope: GateScope<'_>,
        policy: GatePolicy,
        actor: &str,
        in_scope: impl Fn(&Task) -> bool + Sync,
        mut before: F,
    ) -> Result<GateReport, QueueError>
    where
        F: FnMut(GateEntry) -> A,
        A: Future<Output = Result<(), QueueError>>,
    {
        let tag = match scope {
            GateScope::All => leased_tag(),
            GateScope::Tenant(tenant) => leased_tag_of(tenant.as_str()),
        };
        let mut report = GateReport { policy, considered: 0, requeued: Vec::new(), skipped: Vec::new() };
        let mut after: Option<Cursor> = None;
        while report.considered < policy.scan_limit {
            let left = (policy.scan_limit - report.considered) as usize;
            let page = self.engine.scan(Index::Queue(tag), after.as_ref(), left.min(256)).await?;
            for record in &page.items {
                let Some((task, now)) = self.scanned(record, policy.enabled).await? else { continue };
                report.considered += 1;
                let entry = GateEntry::of(&task, now);
                let requeued = u32::try_from(report.requeued.len()).unwrap_or(u32::MAX);
                let judge = |task: &Task, now| judge_gate(task, &policy, requeued, in_scope(task), now);
                match judge(&task, now) {
                    Err(reason) => report.skipped.push(Skipped { entry, reason }),
                    Ok(()) if !policy.enabled => report.requeued.push(entry),
                    Ok(()) => {
                        before(entry.clone()).await?;
                        match self.requeue_stale(&task, &entry, actor, judge).await? {
                            None => report.requeued.push(entry),
                            // Its worker has come back meanwhile.
                            Some(reason) => report.skipped.push(Skipped { entry, reason }),
                        }
                    }
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        Ok(report)
    }

    /// A task as it should be. A pass that may write leaves it so; a preview only works it out.
    async fn scanned(&self, record: &Id, enabled: bool) -> Result<Option<(Task, Stamp)>, QueueError> {
        if enabled {
            return Ok(self.roll(record).await?.map(|task| (task, self.engine.moment().now)));
        }
        let looked = self.look(record).await?;
        match looked.record {
            Some(task) => Ok(Some((self.as_rolled(task, looked.now).await?, looked.now))),
            None => Ok(None),
        }
    }

    /// The task as it would be rolled forward, without a write: a preview changes nothing.
    async fn as_rolled(&self, task: Task, now: Stamp) -> Result<Task, QueueError> {
        match self.next_for(&task, 0).await? {
            Next::Nothing | Next::Admit => Ok(task),
            Next::Command(command) => {
                let wall = self.engine.moment().wall;
                let step = apply_task(Some(&task), &command, Moment { now, wall });
                Ok(step.write.unwrap_or(task))
            }
        }
    }

    /// Requeues a task that is still to be requeued when its fence is written. Otherwise, why not.
    async fn requeue_stale(
        &self,
        task: &Task,
        entry: &GateEntry,
        actor: &str,
        judge: impl Fn(&Task, Stamp) -> Result<(), Skip> + Sync,
    ) -> Result<Option<Skip>, QueueError> {
        let Some(lease) = entry.lease else { return Ok(Some(Skip::MissingLease)) };
        let tenant = Tenant::new(&task.about.tenant).map_err(EngineError::from)?;
        let mend = Mend {
            lease,
            kind: RepairKind::Requeue { posture: RepairPosture::Idempotent, auto: true },
            actor: actor.into(),
            reason: "its lease is stale and the task is idempotent".into(),
        };
        match self.mend_while(&tenant, task.order.id, &mend, judge).await {
            Ok(Mended::Done(_)) => Ok(None),
            Ok(Mended::Spared(reason)) => Ok(Some(reason)),
            Err(QueueError::NotRepaired { .. } | QueueError::Unknown(_)) => Ok(Some(Skip::NotInFlight)),
            Err(error) => Err(error),
        }
    }
}
