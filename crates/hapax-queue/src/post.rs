//! What a worker says about its task: renew, release, post.

use bytes::Bytes;
use hapax_core::{
    Body, Id, Millis, Outcome, OutcomeClass, Token,
    identity::Tenant,
    task::{Task, TaskCommand, TaskId, TaskReply, TaskState, released},
};
use hapax_engine::Stepped;

use crate::{Queue, QueueError, lease::in_range};

/// What a worker posts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskResult(pub Outcome);

/// The header that says what a result's bytes are.
const CONTENT: &str = "content";

impl TaskResult {
    /// It was done. Under an idempotency key this is the answer from now on.
    #[must_use]
    pub fn completed(json: bool, body: impl Into<Bytes>) -> Self {
        Self::new(OutcomeClass::Success, 200, json, body.into())
    }

    /// It failed for good. It is cached only if the policy of `a2a` says so.
    #[must_use]
    pub fn failed(message: &str) -> Self {
        Self::new(OutcomeClass::FinalFailure, 500, false, Bytes::copy_from_slice(message.as_bytes()))
    }

    /// Some of it was done. As a failure, this is cached only if the policy says so.
    #[must_use]
    pub fn partial(json: bool, body: impl Into<Bytes>) -> Self {
        Self::new(OutcomeClass::FinalFailure, 206, json, body.into())
    }

    fn new(class: OutcomeClass, status: u16, json: bool, body: Bytes) -> Self {
        let content = Bytes::from_static(if json { b"json" } else { b"bytes" });
        Self(Outcome { class, status, headers: vec![(CONTENT.into(), content)], body: Body::Inline(body.into()) })
    }

    /// `completed`, `partial` or `failed`.
    #[must_use]
    pub fn status_of(outcome: &Outcome) -> &'static str {
        match (outcome.class, outcome.status) {
            (OutcomeClass::Success, _) => "completed",
            (_, 206) => "partial",
            (_, _) => "failed",
        }
    }

    /// Whether its bytes are JSON.
    #[must_use]
    pub fn is_json(outcome: &Outcome) -> bool {
        outcome.headers.iter().any(|(name, value)| &**name == CONTENT && &**value == b"json")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Posted {
    /// It had been posted before.
    pub already: bool,
}

impl Queue {
    /// Says how it ended. The same result twice is fine. After a repair it is refused and kept as evidence.
    pub async fn post(
        &self,
        tenant: &Tenant,
        id: TaskId,
        token: Token,
        result: TaskResult,
    ) -> Result<Posted, QueueError> {
        let outcome = result.0;
        if let Body::Inline(bytes) = &outcome.body {
            crate::new_task::short_bytes("result", bytes.len(), self.inner.settings.max_payload)?;
        }
        let record = id.record(tenant.as_str());
        let looked = self.look(&record).await?;
        let Some(task) = &looked.record else { return Err(QueueError::Unknown(id)) };
        let holds = matches!(&task.state, TaskState::Leased(leased) if leased.token == token);
        let command = match task.order.cache {
            // Whoever gave the task back, or lost it, is not asked about by the operation: that one would take a late word.
            Some(cache) if holds => self.decide_post(&cache, token, &outcome).await?,
            Some(_) | None => Decided::Counts,
        };
        let order = self.place();
        let (reply, after) = match command {
            Decided::Counts => self.apply_from(&record, looked, &TaskCommand::Post { token, outcome, order }).await?,
            Decided::Refused => self.apply(&record, &TaskCommand::Keep { token, outcome }).await?,
            Decided::Otherwise => {
                self.roll(&record).await?;
                return Err(QueueError::OtherResult(id));
            }
        };
        self.tell_result(after.as_ref());
        match reply {
            TaskReply::Done { already } => Ok(Posted { already }),
            TaskReply::OtherResult => Err(QueueError::OtherResult(id)),
            TaskReply::Fenced
            | TaskReply::Known
            | TaskReply::AlreadyResolved
            | TaskReply::Leased(_)
            | TaskReply::Refused(_) => {
                // The fence may have been written and its repair not: whoever looks does the rest.
                self.roll(&record).await?;
                Err(QueueError::Fenced(id))
            }
        }
    }

    async fn decide_post(&self, cache: &Id, token: Token, outcome: &Outcome) -> Result<Decided, QueueError> {
        Ok(match self.engine.finish(cache, token, outcome.clone()).await? {
            Stepped::Done(_) => Decided::Counts,
            Stepped::Fenced | Stepped::Refused(_) => Decided::Refused,
            Stepped::Conflict(hapax_core::command::Conflict::OtherOutcome(_)) => Decided::Otherwise,
            Stepped::Conflict(_) => Decided::Refused,
        })
    }

    /// Still at it: more time from now on. A lease that ran out and that nobody repaired is renewed as well.
    pub async fn renew(&self, tenant: &Tenant, id: TaskId, token: Token, lease: Millis) -> Result<(), QueueError> {
        in_range("lease_ms", lease.0, (1, 7 * 24 * 3_600 * 1_000))?;
        let (record, task) = self.held(tenant, id, token).await?;
        if let Some(cache) = task.order.cache
            && !self.engine.renew(&cache, token, lease).await?.is_done()
        {
            self.roll(&record).await?;
            return Err(QueueError::Fenced(id));
        }
        self.said(&record, id, &TaskCommand::Renew { token, lease, order: self.place() }).await
    }

    /// Gives it back: nothing happened. It keeps its place in the queue and the attempt does not count.
    pub async fn release(&self, tenant: &Tenant, id: TaskId, token: Token) -> Result<(), QueueError> {
        let record = id.record(tenant.as_str());
        let Some(task) = self.look(&record).await?.record else { return Err(QueueError::Unknown(id)) };
        if let (Some(cache), TaskState::Leased(_)) = (task.order.cache, &task.state)
            && !self.engine.fail(&cache, token, released()).await?.is_done()
        {
            self.roll(&record).await?;
            return Err(QueueError::Fenced(id));
        }
        self.said(&record, id, &TaskCommand::Release { token }).await
    }

    async fn held(&self, tenant: &Tenant, id: TaskId, token: Token) -> Result<(Id, Task), QueueError> {
        let record = id.record(tenant.as_str());
        let task = self.look(&record).await?.record.ok_or(QueueError::Unknown(id))?;
        match &task.state {
            TaskState::Leased(leased) if leased.token == token => Ok((record, task)),
            TaskState::Leased(_)
            | TaskState::Sent { .. }
            | TaskState::Joined { .. }
            | TaskState::Queued { .. }
            | TaskState::Resolved(_)
            | TaskState::Compacted { .. } => Err(QueueError::Fenced(id)),
        }
    }

    async fn said(&self, record: &Id, id: TaskId, command: &TaskCommand) -> Result<(), QueueError> {
        let (reply, after) = self.apply(record, command).await?;
        self.ring_for(after.as_ref());
        match reply {
            TaskReply::Done { .. } => Ok(()),
            TaskReply::Fenced
            | TaskReply::Known
            | TaskReply::AlreadyResolved
            | TaskReply::Leased(_)
            | TaskReply::OtherResult
            | TaskReply::Refused(_) => Err(QueueError::Fenced(id)),
        }
    }
}

/// What the deciding record says to a result.
enum Decided {
    Counts,
    Refused,
    Otherwise,
}
