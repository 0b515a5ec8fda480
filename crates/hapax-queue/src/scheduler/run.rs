use std::{collections::BTreeMap, future::Future, pin::Pin};

use hapax_core::task::{GateEntry, GatePolicy, GateReport, Skip};

use super::SchedulerConfig;
use crate::{GateScope, Queue, QueueError};

/// What stands in the audit log after each pass, whatever became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassRow {
    pub policy: GatePolicy,
    pub considered: u32,
    pub requeued: u32,
    pub skipped: u32,
    pub skips: BTreeMap<&'static str, u32>,
    pub error: Option<String>,
}

impl PassRow {
    fn of(policy: GatePolicy) -> Self {
        Self { policy, considered: 0, requeued: 0, skipped: 0, skips: BTreeMap::new(), error: None }
    }

    /// A pass that came to nothing.
    #[must_use]
    pub fn failed(policy: GatePolicy, why: &str) -> Self {
        Self { error: Some(why.to_owned()), ..Self::of(policy) }
    }
}

pub type Noted<'a> = Pin<Box<dyn Future<Output = Result<(), QueueError>> + Send + 'a>>;

/// Where a scheduler runs: who it is, what it may, and where its rows go.
pub trait SchedulerHost: Send + Sync + 'static {
    /// Whether it has `a2a.repair.requeue`. Asked before each pass.
    fn may_requeue(&self) -> bool;
    fn actor(&self) -> String;
    /// One `auto_requeue` row, durable before the requeue: what cannot be written down is not done.
    fn note_requeue(&self, entry: GateEntry) -> Noted<'_>;
    /// It was not done after all: its worker came back before its lease could be fenced.
    fn note_spared(&self, entry: GateEntry, reason: Skip) -> Noted<'_>;
    /// One `a2a_auto_retry_scheduler_scan` row.
    fn note_pass(&self, row: PassRow) -> Noted<'_>;
}

/// Runs passes until it is dropped.
#[derive(Debug)]
pub struct Scheduler(tokio::task::JoinHandle<()>);

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Scheduler {
    /// Sleeps first; the next pass begins an interval after the last one has ended, so passes never overlap.
    #[must_use = "the scheduler stops when it is dropped"]
    pub fn start(queue: Queue, config: SchedulerConfig, host: impl SchedulerHost) -> Self {
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(config.interval.as_std()).await;
                // What went wrong stands in the row; without a log to write it to there is nobody to tell.
                let _told_in_the_row = pass(&queue, config.policy, &host).await;
            }
        }))
    }
}

/// One pass, with its row.
pub(crate) async fn pass(
    queue: &Queue,
    policy: GatePolicy,
    host: &impl SchedulerHost,
) -> Result<Option<GateReport>, QueueError> {
    let mut row = PassRow::of(policy);
    if !host.may_requeue() {
        let why = "the scheduler has no capability `a2a.repair.requeue`; nothing was changed";
        host.note_pass(PassRow::failed(policy, why)).await?;
        return Ok(None);
    }
    let actor = host.actor();
    let noted = parking_lot::Mutex::new(Vec::new());
    let note = |entry: GateEntry| {
        noted.lock().push(entry.lease);
        host.note_requeue(entry)
    };
    match queue.retry_stale(GateScope::All, policy, &actor, |_| true, note).await {
        Ok(report) => {
            row.considered = report.considered;
            row.requeued = u32::try_from(report.requeued.len()).unwrap_or(u32::MAX);
            row.skipped = u32::try_from(report.skipped.len()).unwrap_or(u32::MAX);
            let noted = noted.into_inner();
            for spared in report.skipped.iter().filter(|skipped| noted.contains(&skipped.entry.lease)) {
                host.note_spared(spared.entry.clone(), spared.reason).await?;
            }
            for skipped in &report.skipped {
                *row.skips.entry(skipped.reason.name()).or_default() += 1;
            }
            host.note_pass(row).await?;
            Ok(Some(report))
        }
        Err(error) => {
            host.note_pass(PassRow::failed(policy, &error.to_string())).await?;
            Err(error)
        }
    }
}

impl Queue {
    /// One pass as the scheduler makes it, row included.
    pub async fn scheduled_pass(
        &self,
        policy: GatePolicy,
        host: &impl SchedulerHost,
    ) -> Result<Option<GateReport>, QueueError> {
        pass(self, policy, host).await
    }
}
