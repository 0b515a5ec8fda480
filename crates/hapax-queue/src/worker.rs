//! A worker: lease, handle, post, with the lease renewed while it handles.
//!
//! The contract of a worker is its own: writes conditional on the task's id or key, the key forwarded to calls that
//! take one ([`Handed::forward_key`]), results safe to post twice. Work that cannot keep it is sent as unsafe.

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::{Millis, identity::Tenant};
use tokio::sync::watch;

use crate::{Handed, LeaseRequest, Queue, QueueError, TaskResult};

/// What a handler made of a task.
#[derive(Clone, Debug)]
pub enum Handled {
    Completed(Bytes),
    CompletedJson(serde_json::Value),
    Failed(String),
    /// Nothing happened: back into the queue, and not counted as an attempt.
    NotMine,
}

/// How much a worker did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerReport {
    pub posted: u64,
    pub released: u64,
    /// Its lease had been taken back: the result is kept as evidence.
    pub refused: u64,
    /// The handler panicked. Nobody knows what it did, so its lease is left to go stale.
    pub unknown: u64,
}

/// Handles the tasks of one recipient, one at a time. Clone it to handle several at once.
#[derive(Clone, Debug)]
pub struct Worker {
    queue: Queue,
    tenant: Tenant,
    request: LeaseRequest,
    stop: Arc<watch::Sender<bool>>,
}

impl Worker {
    #[must_use]
    pub fn new(queue: &Queue, tenant: &Tenant, recipient: &str, name: &str) -> Self {
        let request = LeaseRequest { wait: Duration::from_secs(30), ..LeaseRequest::of(recipient, name) };
        Self { queue: queue.clone(), tenant: tenant.clone(), request, stop: Arc::new(watch::Sender::new(false)) }
    }

    #[must_use]
    pub fn lease(mut self, lease: Millis) -> Self {
        self.request.lease = Some(lease);
        self
    }

    /// Lets every clone of this worker end after the task at hand.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Works until it is stopped.
    pub async fn run<H, F>(&self, handler: H) -> Result<WorkerReport, QueueError>
    where
        H: Fn(Handed) -> F,
        F: Future<Output = Handled> + Send + 'static,
    {
        let mut report = WorkerReport::default();
        let mut stopped = self.stop.subscribe();
        loop {
            if *stopped.borrow_and_update() {
                return Ok(report);
            }
            let stop = async {
                let _said_or_gone = stopped.changed().await;
            };
            match self.queue.lease_until(&self.tenant, &self.request, stop).await {
                Ok(tasks) => {
                    for task in tasks {
                        self.handle(task, &handler, &mut report).await?;
                    }
                }
                Err(error) if error.is_passing() => tokio::time::sleep(Duration::from_millis(250)).await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn handle<H, F>(&self, task: Handed, handler: &H, report: &mut WorkerReport) -> Result<(), QueueError>
    where
        H: Fn(Handed) -> F,
        F: Future<Output = Handled> + Send + 'static,
    {
        let (id, token) = (task.order.id, task.token);
        // Spawned, so that a panic ends the task at hand and not the worker.
        let mut work = tokio::spawn(handler(task.clone()));
        let handled = loop {
            tokio::select! {
                done = &mut work => break done,
                () = tokio::time::sleep(task.lease.as_std() / 3) => {
                    // A renewal that fails now is tried again; a lease that was taken back is found out by the post.
                    let _tried_again = self.queue.renew(&self.tenant, id, token, task.lease).await;
                }
            }
        };
        let result = match handled {
            Ok(Handled::Completed(bytes)) => TaskResult::completed(false, bytes),
            Ok(Handled::CompletedJson(value)) => TaskResult::completed(true, value.to_string()),
            Ok(Handled::Failed(message)) => TaskResult::failed(&message),
            Ok(Handled::NotMine) => {
                report.released += 1;
                return self.counted(self.queue.release(&self.tenant, id, token).await, report);
            }
            Err(_panicked) => {
                report.unknown += 1;
                return Ok(());
            }
        };
        let mut wait = Duration::from_millis(50);
        loop {
            match self.queue.post(&self.tenant, id, token, result.clone()).await {
                Ok(_) => {
                    report.posted += 1;
                    return Ok(());
                }
                // Posting twice is fine, so a lost answer is a reason to do just that.
                Err(error) if error.is_passing() => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(5));
                }
                Err(error) => return self.counted(Err(error), report),
            }
        }
    }

    fn counted(&self, said: Result<(), QueueError>, report: &mut WorkerReport) -> Result<(), QueueError> {
        match said {
            Err(QueueError::Fenced(_) | QueueError::OtherResult(_) | QueueError::Unknown(_)) => {
                report.refused += 1;
                Ok(())
            }
            other => other,
        }
    }
}
