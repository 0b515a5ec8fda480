use std::{sync::Arc, time::Duration};

use hapax_core::Millis;

use super::{Harness, Verdict};
use crate::{BoxFuture, Store, StoreError};

/// Why a check ended before its end.
#[derive(Debug)]
pub(super) enum Halt {
    Failed(String),
    Skipped(String),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed(format!("an error where none was due: {error}"))
    }
}

impl From<tokio::task::JoinError> for Halt {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Failed(format!("a call ended in a panic: {error}"))
    }
}

pub(super) type Outcome = Result<(), Halt>;

pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) run: fn(Bench) -> BoxFuture<'static, Outcome>,
}

/// What every check works at.
#[derive(Clone)]
pub(super) struct Bench(pub(super) Arc<dyn Harness>);

impl Bench {
    pub(super) async fn open(&self) -> Result<Arc<dyn Store>, Halt> {
        Ok(self.0.open().await?)
    }

    pub(super) async fn reopen(&self, store: Arc<dyn Store>) -> Result<Arc<dyn Store>, Halt> {
        self.0.reopen(store).await?.ok_or_else(|| Halt::Skipped("nothing outlives the process".into()))
    }

    pub(super) async fn advance(&self, by: Millis) -> Outcome {
        if self.0.advance(by).await { Ok(()) } else { Err(Halt::Skipped("this harness cannot move time".into())) }
    }

    pub(super) fn patience(&self) -> Duration {
        self.0.patience()
    }
}

const LONGEST: Duration = Duration::from_secs(120);

/// In a task of its own, so that a panic of the store is a failure like any other.
pub(super) async fn attempt(check: &Check, harness: &Arc<dyn Harness>) -> Verdict {
    let task = tokio::spawn((check.run)(Bench(Arc::clone(harness))));
    let abort = task.abort_handle();
    match tokio::time::timeout(LONGEST, task).await {
        Ok(Ok(Ok(()))) => Verdict::Passed,
        Ok(Ok(Err(Halt::Failed(why)))) => Verdict::Failed(why),
        Ok(Ok(Err(Halt::Skipped(why)))) => Verdict::Skipped(why),
        Ok(Err(error)) => Verdict::Failed(format!("the check ended in a panic: {error}")),
        Err(_) => {
            abort.abort();
            Verdict::Failed(format!("no end after {} s", LONGEST.as_secs()))
        }
    }
}
