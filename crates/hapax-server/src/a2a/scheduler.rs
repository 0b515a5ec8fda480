//! The retry gate on a timer, and compaction on its own.

use std::{sync::Arc, time::Duration};

use hapax_core::task::GateEntry;
use hapax_queue::{Noted, PassRow, Queue, Scheduler, SchedulerConfig, SchedulerHost};
use serde_json::json as value;
use tokio::time::Instant;

use super::{Grants, Reaches, problem, repair::auto_requeue};
use crate::{api::note, app::App, audit::Action, log::Level, server::Server};

/// Who the scheduler is, and what it may.
struct Host {
    app: Arc<App>,
    grants: Grants,
}

impl SchedulerHost for Host {
    fn may_requeue(&self) -> bool {
        self.grants.allow("a2a.repair.requeue", &Reaches::default())
    }

    fn actor(&self) -> String {
        "a2a retry scheduler".to_owned()
    }

    fn note_requeue(&self, entry: GateEntry) -> Noted<'_> {
        Box::pin(async move { auto_requeue(&self.app, &self.actor(), &entry).await })
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
/// How often what is done with is compacted.
const COMPACT_EVERY: Duration = Duration::from_secs(300);

/// Looks after the queue once; what fails is said, and tried again the next time.
async fn tidy(app: &App, queue: &Queue, compact: bool) {
    if let Err(error) = queue.roll_forward().await {
        app.say(Level::Warn, "a2a_roll_forward_failed", &[("error", &problem(&error).detail)]);
    }
    if !compact {
        return;
    }
    let passed = async {
        queue.expire_overdue().await?;
        queue.compact(None).await
    };
    if let Err(error) = passed.await {
        app.say(Level::Warn, "a2a_compaction_failed", &[("error", &problem(&error).detail)]);
    }
}

impl Server {
    /// Runs what the queue needs beside requests: the retry scheduler if it is configured, with the capabilities it was
    /// given, rolling forward what a crash left behind, and compaction. Until [`Server::stop`].
    pub async fn keep_queue(&self, config: Option<SchedulerConfig>, capabilities: &[String]) {
        let app = Arc::clone(self.app());
        let queue = match app.queue.get(&app).await {
            Ok(queue) => queue.clone(),
            // A store of the basic level keeps no queue; whoever asks for one is told.
            Err(_) => return,
        };
        let mut grants = Grants::default();
        for name in capabilities {
            grants.extend(Grants::parse(name).unwrap_or_default());
        }
        let host = Host { app: Arc::clone(&app), grants };
        let _running = config.map(|config| Scheduler::start(queue.clone(), config, host));
        let mut stop = app.stop.clone();
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
