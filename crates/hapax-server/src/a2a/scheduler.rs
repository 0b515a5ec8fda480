//! The retry gate on a timer, and compaction on its own.

use std::{sync::Arc, time::Duration};

use hapax_core::task::GateEntry;
use hapax_queue::{Noted, PassRow, Queue, QueueError, Scheduler, SchedulerConfig, SchedulerHost, Skip};
use serde_json::json as value;
use tokio::{sync::watch, time::Instant};

use super::{
    Grants, Reaches,
    repair::{auto_requeue, not_requeued},
};
use crate::{api::note, app::App, audit::Action, log::Level, server::Server};

/// Who the scheduler is, and what it may.
struct Host {
    app: Arc<App>,
    grants: Grants,
}

impl SchedulerHost for Host {
    fn may_requeue(&self) -> bool {
        self.grants.allow(SCHEDULER_CAPABILITY, &Reaches::default())
    }

    fn actor(&self) -> String {
        "a2a retry scheduler".to_owned()
    }

    fn note_requeue(&self, entry: GateEntry) -> Noted<'_> {
        Box::pin(async move { auto_requeue(&self.app, &self.actor(), &entry).await })
    }

    fn note_spared(&self, entry: GateEntry, reason: Skip) -> Noted<'_> {
        Box::pin(async move { not_requeued(&self.app, &self.actor(), &entry, reason).await })
    }

    fn note_pass(&self, row: PassRow) -> Noted<'_> {
        Box::pin(async move {
            let detail = value!({
                "considered": row.considered,
                "requeued": row.requeued,
                "skipped": row.skipped,
                "skips": row.skips,
                "policy": {
                    "min_lease_age_ms": row.policy.min_lease_age.0,
                    "max_attempts": row.policy.max_attempts,
                    "max_requeues": row.policy.max_requeues,
                    "scan_limit": row.policy.scan_limit,
                },
                "error": row.error,
            });
            // A log that cannot be written to has said so itself.
            let _said = note(&self.app, &self.actor(), Action::A2aAutoRetrySchedulerScan, "", detail).await;
            Ok(())
        })
    }
}

/// How often what a crash has left half done is rolled forward: the longest that a sender waits for such a result.
const ROLL_EVERY: Duration = Duration::from_secs(30);
/// How long after an attempt to open the queue the next one is made.
const OPEN_AGAIN: Duration = Duration::from_secs(5);
/// How often what is done with is compacted.
const COMPACT_EVERY: Duration = Duration::from_secs(300);

/// Looks after the queue once; what fails is said, and tried again the next time.
async fn tidy(app: &App, queue: &Queue, compact: bool) {
    if let Err(error) = queue.roll_forward().await {
        app.say(Level::Warn, "a2a_roll_forward_failed", &[("error", &error.to_string())]);
    }
    if !compact {
        return;
    }
    let passed = async {
        queue.expire_overdue().await?;
        queue.compact(None).await
    };
    if let Err(error) = passed.await {
        app.say(Level::Warn, "a2a_compaction_failed", &[("error", &error.to_string())]);
    }
}

/// The queue, once it can be opened: a store may be out of reach at the start, and policies may be mended. `None`: the
/// store keeps no queue, or the server stops. That a scheduler which was asked for does not run is said and written down.
async fn opened(
    app: &App,
    host: &Host,
    config: Option<SchedulerConfig>,
    stop: &mut watch::Receiver<bool>,
) -> Option<Queue> {
    let mut told = String::new();
    loop {
        let error = match app.queue.open(app).await {
            Ok(queue) => return Some(queue.clone()),
            Err(error) => error,
        };
        let why = error.to_string();
        // The same trouble is told once; whoever asks for a task is told it every time.
        if told != why {
            app.say(Level::Warn, "a2a_queue_not_opened", &[("error", &error.to_string())]);
            if let Some(config) = config {
                let _said = host.note_pass(PassRow::failed(config.policy, &why)).await;
            }
            told = why;
        }
        if matches!(error, QueueError::UnfitStore(_)) {
            return None;
        }
        tokio::select! {
            () = crate::http::stopped(stop) => return None,
            () = tokio::time::sleep(OPEN_AGAIN) => {}
        }
    }
}

/// What the scheduler may be granted. Anything else in its place is a slip.
pub const SCHEDULER_CAPABILITY: &str = "a2a.repair.requeue";

impl Server {
    /// Runs what the queue needs beside requests: the retry scheduler if it is configured, with the capabilities it was
    /// given, rolling forward what a crash left behind, and compaction. Until [`Server::stop`].
    pub async fn keep_queue(&self, config: Option<SchedulerConfig>, capabilities: &[String]) {
        let app = Arc::clone(self.app());
        let mut grants = Grants::default();
        for name in capabilities {
            grants.extend(Grants::parse(name).unwrap_or_default());
        }
        let host = Host { app: Arc::clone(&app), grants };
        let mut stop = app.stop.clone();
        let Some(queue) = opened(&app, &host, config, &mut stop).await else { return };
        let _running = config.map(|config| Scheduler::start(queue.clone(), config, host));
        let mut compacted = Instant::now();
        loop {
            let compact = compacted.elapsed() >= COMPACT_EVERY;
            // At the start as well: that is when a process has just died.
            tidy(&app, &queue, compact).await;
            if compact {
                compacted = Instant::now();
            }
            tokio::select! {
                () = crate::http::stopped(&mut stop) => break,
                () = tokio::time::sleep(ROLL_EVERY) => {}
            }
        }
    }
}
