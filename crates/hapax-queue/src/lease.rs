//! Leasing: the deciding record begins first, then the task is marked. Nobody else is handed it from then on.

use std::{collections::HashSet, future::Future, sync::Arc, time::Duration};

use hapax_core::{
    Id, Millis, Tag, Token, Verdict,
    identity::Tenant,
    task::{
        How, LeaseId, Order, Task, TaskCommand, TaskReply, TaskState, failure, owner_of, queue_tag, released,
        request_tag,
    },
};
use hapax_engine::{Begun, Looked, Ticket, downstream_key};
use hapax_store::Index;
use tokio::time::Instant;

use crate::{
    Queue, QueueError, Refused,
    dispatch::{Candidate, Candidates},
};

/// What a worker asks for.
#[derive(Clone, Debug)]
#[must_use]
pub struct LeaseRequest {
    pub recipient: String,
    /// How the worker is called in records.
    pub worker: String,
    pub limit: usize,
    /// `None`: as the settings say.
    pub lease: Option<Millis>,
    /// How long to wait for work if there is none.
    pub wait: Duration,
    /// Names this call: said again after a lost answer, it returns what it took.
    pub request: Option<[u8; 16]>,
    /// Only from these senders; from all if `None`.
    pub senders: Option<Vec<String>>,
}

impl LeaseRequest {
    pub fn of(recipient: &str, worker: &str) -> Self {
        Self {
            recipient: recipient.to_owned(),
            worker: worker.to_owned(),
            limit: 1,
            lease: None,
            wait: Duration::ZERO,
            request: None,
            senders: None,
        }
    }
}

/// A task in the hands of a worker.
#[derive(Clone, Debug)]
pub struct Handed {
    pub order: Arc<Order>,
    pub token: Token,
    pub lease_id: LeaseId,
    /// How many leases there were, this one included, without those that were given back.
    pub attempt: u32,
    pub lease: Millis,
    /// To be forwarded to calls that take an idempotency key: the same over all attempts.
    pub forward_key: String,
}

/// The longest and the shortest lease.
const LEASES: (u64, u64) = (1, 7 * 24 * 3_600 * 1_000);
const MOST_AT_ONCE: u64 = 256;

impl Queue {
    /// Hands out up to `limit` tasks, the oldest first. Waits if there are none and the call says so.
    pub async fn lease(&self, tenant: &Tenant, asked: &LeaseRequest) -> Result<Vec<Handed>, QueueError> {
        self.lease_until(tenant, asked, std::future::pending()).await
    }

    /// As [`Queue::lease`], and waits no longer than until `stop` ends. Only the waiting is cut short: to drop the whole
    /// call while a lease is written would leave its task leased by nobody.
    pub async fn lease_until(
        &self,
        tenant: &Tenant,
        asked: &LeaseRequest,
        stop: impl Future<Output = ()>,
    ) -> Result<Vec<Handed>, QueueError> {
        crate::new_task::name("recipient", &asked.recipient)?;
        crate::new_task::name("worker", &asked.worker)?;
        let length = asked.lease.unwrap_or(self.inner.settings.lease);
        in_range("lease_ms", length.0, LEASES)?;
        in_range("limit", asked.limit as u64, (1, MOST_AT_ONCE))?;
        if let Some(request) = asked.request {
            let taken = self.taken_by(tenant, asked, &request).await?;
            if !taken.is_empty() {
                return Ok(taken);
            }
        }
        let until = Instant::now().checked_add(asked.wait);
        let tag = queue_tag(tenant.as_str(), &asked.recipient);
        let list = self.inner.dispatch.list(tag);
        let mut stop = std::pin::pin!(stop);
        let mut woken = false;
        loop {
            let mut heard = std::pin::pin!(list.heard());
            // From here on no ring is missed, also one that comes while the queue is looked through.
            heard.as_mut().enable();
            let mut handed = Vec::new();
            if let Err(error) = self.take_from(&list, tag, asked, length, woken, &mut handed).await
                && handed.is_empty()
            {
                return Err(error);
            }
            // What is held already is handed over even so: an error in its place would leave it leased by nobody. Whoever
            // asks for more is told.
            if !handed.is_empty() || asked.wait.is_zero() {
                return Ok(handed);
            }
            let Some(left) = until.map(|until| until.saturating_duration_since(Instant::now())) else {
                return Ok(handed);
            };
            if left.is_zero() {
                return Ok(handed);
            }
            let pause = self.pause(left);
            tokio::select! {
                biased;
                () = &mut stop => return Ok(handed),
                _rung_or_over = tokio::time::timeout(pause, heard) => woken = true,
            }
        }
    }

    /// Takes as many as are asked for. After an error, what was taken before it stays in `handed`.
    async fn take_from(
        &self,
        list: &Arc<Candidates>,
        tag: Tag,
        asked: &LeaseRequest,
        length: Millis,
        woken: bool,
        handed: &mut Vec<Handed>,
    ) -> Result<(), QueueError> {
        if let Some(senders) = &asked.senders {
            return self.take_of_senders(list, tag, senders, asked, length, woken, handed).await;
        }
        let rung = woken && self.engine.store().single_writer();
        // One that comes a second time is there, and not for this caller now.
        let mut passed_over = HashSet::new();
        while handed.len() < asked.limit {
            let Some(candidate) = list.take(&self.engine, tag, rung).await? else { break };
            if !passed_over.insert(candidate.id) {
                candidate.settle();
                break;
            }
            handed.extend(self.hand_out(&candidate, asked, length).await?);
            candidate.settle();
        }
        Ok(())
    }

    /// How long to wait at once: other processes ring no bell here.
    pub(crate) fn pause(&self, left: Duration) -> Duration {
        if self.engine.store().single_writer() { left } else { left.min(self.inner.settings.look_again) }
    }

    pub(crate) async fn hand_out(
        &self,
        candidate: &Candidate,
        asked: &LeaseRequest,
        length: Millis,
    ) -> Result<Option<Handed>, QueueError> {
        let record = candidate.id;
        let mut looked = self.look(&record).await?;
        if matches!(looked.record.as_ref().map(|task| &task.state), Some(TaskState::Sent { .. })) {
            // Its sender went away in between.
            self.roll(&record).await?;
            looked = self.look(&record).await?;
        }
        let Some(task) = &looked.record else { return Ok(None) };
        let wanted = asked.senders.as_ref().is_none_or(|all| all.iter().any(|one| **one == *task.order.sender.key));
        if !wanted || !matches!(task.state, TaskState::Queued { .. }) {
            return Ok(None);
        }
        if task.is_overdue(looked.now) && task.order.deadline.is_some_and(|deadline| deadline.expires) {
            self.expire(&record).await?;
            return Ok(None);
        }
        match task.order.cache {
            None => {
                let nonce = self.engine.nonce()?;
                self.mark(&record, looked, asked, length, Token { attempt: 0, nonce }).await
            }
            Some(_) => self.begin(&record, looked, asked, length).await,
        }
    }

    /// Marks the task as leased. A token without a number gets the next one.
    async fn mark(
        &self,
        record: &Id,
        looked: Looked<Task>,
        asked: &LeaseRequest,
        length: Millis,
        token: Token,
    ) -> Result<Option<Handed>, QueueError> {
        let command = TaskCommand::Lease {
            nonce: token.nonce,
            number: (token.attempt > 0).then_some(token.attempt),
            owner: asked.worker.as_str().into(),
            request: asked.request,
            lease: length,
            order: self.place(),
        };
        let (reply, task) = self.apply_from(record, looked, &command).await?;
        match (reply, task) {
            (TaskReply::Leased(token), Some(task)) => Ok(Some(handed(&task, token, length))),
            (_, _) => Ok(None),
        }
    }

    async fn begin(
        &self,
        record: &Id,
        looked: Looked<Task>,
        asked: &LeaseRequest,
        length: Millis,
    ) -> Result<Option<Handed>, QueueError> {
        let Some(task) = looked.record.clone() else { return Ok(None) };
        let call = self.cache_of(&task)?.lease(length).owner(&owner_of(&task.order.id, &asked.worker));
        match Box::pin(call.begin()).await? {
            Begun::Execute(ticket) => {
                let marked = self.mark(record, looked, asked, length, ticket.token()).await?;
                if marked.is_none() {
                    self.give_up(&ticket).await?;
                }
                Ok(marked)
            }
            Begun::Replay(replayed) => {
                let outcome = match replayed.replay.answer {
                    hapax_core::Recorded::Whole(outcome) => outcome,
                    hapax_core::Recorded::DigestOnly { .. } => failure("it was done before; its result is not kept"),
                };
                let command = TaskCommand::Resolve { how: How::Replayed, outcome, order: self.place() };
                let (_, task) = self.apply_from(record, looked, &command).await?;
                self.tell_result(task.as_ref());
                Ok(None)
            }
            Begun::Told(Verdict::Mismatch) => {
                let outcome = failure("its idempotency key was used for another payload");
                let command = TaskCommand::Resolve { how: How::Forced, outcome, order: self.place() };
                let (_, task) = self.apply_from(record, looked, &command).await?;
                self.tell_result(task.as_ref());
                Ok(None)
            }
            Begun::Told(Verdict::Refused(_)) => Err(QueueError::Full { most: self.inner.settings.max_tasks }),
            // Somebody has it: this very task, before a crash, or one that it joins now.
            Begun::Told(_) | Begun::JoinedFailure(_) => {
                self.roll(record).await?;
                Ok(None)
            }
        }
    }

    /// The task went elsewhere between the two writes: the attempt never was.
    async fn give_up(&self, ticket: &Ticket) -> Result<(), QueueError> {
        let _either_way = ticket.fail(&self.engine, released()).await?;
        Ok(())
    }

    /// Ends an overdue task that nobody began. What decides is asked first: a lease that died half way has begun it.
    pub(crate) async fn expire(&self, record: &Id) -> Result<bool, QueueError> {
        self.roll(record).await?;
        let outcome = failure("its deadline passed before anybody began it");
        let (reply, task) = self.apply(record, &TaskCommand::Expire { outcome, order: self.place() }).await?;
        self.tell_result(task.as_ref());
        Ok(reply == TaskReply::Done { already: false })
    }

    /// What an earlier call under this name has taken and still holds.
    async fn taken_by(
        &self,
        tenant: &Tenant,
        asked: &LeaseRequest,
        request: &[u8; 16],
    ) -> Result<Vec<Handed>, QueueError> {
        let tag = request_tag(tenant.as_str(), &asked.recipient, request);
        let page = self.engine.scan(Index::Group(tag), None, MOST_AT_ONCE as usize).await?;
        let mut taken = Vec::new();
        for record in page.items {
            if let Some(task) = self.look(&record).await?.record
                && let TaskState::Leased(leased) = &task.state
                && leased.request.as_ref() == Some(request)
            {
                let length = leased.lease.as_ref().map_or(Millis::ZERO, |lease| lease.length);
                taken.push(handed(&task, leased.token, length));
            }
        }
        Ok(taken)
    }
}

fn handed(task: &Task, token: Token, lease: Millis) -> Handed {
    Handed {
        order: Arc::clone(&task.order),
        token,
        lease_id: LeaseId::of(&task.order.id, token),
        attempt: task.attempt,
        lease,
        forward_key: match &task.order.idempotency {
            Some(idempotency) => idempotency.key.to_string(),
            None => downstream_key(&task.order.id.record(&task.about.tenant)),
        },
    }
}

pub(crate) fn in_range(what: &'static str, given: u64, (least, most): (u64, u64)) -> Result<(), QueueError> {
    if (least..=most).contains(&given) { Ok(()) } else { Err(Refused::OutOfRange { what, given, least, most }.into()) }
}
