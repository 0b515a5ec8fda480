//! Following a member to its end or lapse.

use hapax_core::{Id, Record, State, as_read, lease_end};
use hapax_store::StoreError;

use crate::{
    engine::{Engine, Inner},
    error::EngineError,
    seen::Seen,
};

/// How far a member has come, as others may see it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Progress {
    /// Nothing is recorded: it was given back, or its time is over.
    Gone,
    /// Begun, and not started so far.
    Waiting,
    Running,
    /// It ended without a final outcome, and may be run again.
    Open,
    InDoubt,
    /// It took effect.
    Committed,
    /// It failed for good.
    Rejected,
}

impl Progress {
    pub(crate) const fn of(record: &Record) -> Self {
        match &record.state {
            State::Pending(pending) if pending.started => Self::Running,
            // It has not started, and an earlier attempt of it may have taken effect.
            State::Pending(_) if record.earlier_doubt.is_some() => Self::Running,
            State::Pending(_) => Self::Waiting,
            State::Open(_) => Self::Open,
            State::InDoubt(_) => Self::InDoubt,
            State::Committed(_) => Self::Committed,
            State::Rejected(_) => Self::Rejected,
            State::Tombstone(stone) => {
                if stone.rejected {
                    Self::Rejected
                } else {
                    Self::Committed
                }
            }
        }
    }

    /// Whether it may still change by itself.
    #[must_use]
    pub const fn is_under_way(self) -> bool {
        matches!(self, Self::Waiting | Self::Running)
    }
}

impl Engine {
    /// How far an operation has come.
    pub async fn progress(&self, id: &Id) -> Result<Progress, EngineError> {
        Ok(self.inner.progress(id).await?)
    }

    /// Waits until an operation is no longer under way: to its end, or to its lapse.
    pub async fn follow(&self, id: &Id) -> Result<Progress, EngineError> {
        loop {
            let watch = self.inner.store.watch(id);
            let mut watch = self.inner.in_time("watch", watch).await?;
            let Some(seen) = self.inner.operation(id).await? else { return Ok(Progress::Gone) };
            let progress = self.inner.progress_of(&seen);
            if !progress.is_under_way() {
                return Ok(progress);
            }
            let lapse = match seen.record.as_deref().map(|record| &record.state) {
                Some(State::Pending(pending)) => Some(lease_end(&pending.lease)),
                Some(
                    State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_),
                )
                | None => None,
            };
            // A lapse writes nothing, so nobody wakes us for it. A stale lease has no end: then only a write does.
            match lapse.map(|at| self.inner.instant_of(&seen, at)).filter(|at| *at > tokio::time::Instant::now()) {
                Some(at) => {
                    let _either = tokio::time::timeout_at(at, watch.changed()).await;
                }
                None => watch.changed().await,
            }
        }
    }
}

impl Inner {
    /// An operation as it stands; `None` where the id is one of another kind. So is a damaged record: it is everybody's
    /// trouble who asks for it, but must not stop the work on all others.
    pub(crate) async fn operation(&self, id: &Id) -> Result<Option<Seen>, StoreError> {
        match self.read(id).await {
            Ok(seen) => Ok(Some(seen).filter(|seen| !seen.is_other)),
            Err(StoreError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn progress(&self, id: &Id) -> Result<Progress, StoreError> {
        Ok(self.operation(id).await?.map_or(Progress::Gone, |seen| self.progress_of(&seen)))
    }

    fn progress_of(&self, seen: &Seen) -> Progress {
        let now = self.now(seen);
        let read = seen.record.as_deref().and_then(|record| as_read(record, now));
        read.map_or(Progress::Gone, |record| Progress::of(&record))
    }
}
