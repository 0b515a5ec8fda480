use data_encoding::{BASE64, HEXLOWER};
use hapax_core::{
    Body, State, Tag,
    identity::{Surface, Tenant},
    task::{How, LeaseId, SURFACE, Task, TaskState, tenant_tag},
};
use hapax_engine::EngineError;
use hapax_store::{Cursor, Index, Kind, codec};

use super::line::{Content, IdempotencyLine, LogLine, PeerLine, TaskLine};
use crate::{Queue, QueueError, TaskResult};

const PAGE: usize = 256;
/// Where a cursor stands.
const TASKS: u8 = b'T';
const CACHE: u8 = b'C';

impl Queue {
    /// Writes everything of one tenant as lines, through `write`. How many.
    pub async fn export(
        &self,
        tenant: &Tenant,
        mut write: impl FnMut(&LogLine) -> std::io::Result<()>,
    ) -> Result<std::io::Result<u64>, QueueError> {
        let mut lines = 0;
        let mut after = None;
        loop {
            let (page, next) = self.export_page(tenant, after.as_ref()).await?;
            for line in &page {
                if let Err(error) = write(line) {
                    return Ok(Err(error));
                }
                lines += 1;
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(Ok(lines)),
            }
        }
    }

    /// Some of it, and where to go on: the lines of one task are never parted. First the tasks, then what is answered from.
    pub async fn export_page(
        &self,
        tenant: &Tenant,
        after: Option<&Cursor>,
    ) -> Result<(Vec<LogLine>, Option<Cursor>), QueueError> {
        let (place, inner) = match after.and_then(|cursor| cursor.0.split_first()) {
            None => (TASKS, None),
            Some((place, rest)) => (*place, (!rest.is_empty()).then(|| Cursor(bytes::Bytes::copy_from_slice(rest)))),
        };
        let tag = if place == TASKS { tenant_tag(tenant) } else { self.cache_tag(tenant)? };
        let Some(tag) = tag else { return Ok((Vec::new(), None)) };
        let page = self.engine.scan(Index::TenantAge(tag), inner.as_ref(), PAGE).await?;
        let mut lines = Vec::new();
        for record in &page.items {
            let snapshot = self.engine.store().get(record).await.map_err(EngineError::from)?;
            match snapshot.record.map(|envelope| envelope.kind) {
                Some(Kind::TASK) => lines.extend(self.roll(record).await?.iter().flat_map(of_task)),
                Some(Kind::OPERATION) => lines.extend(self.of_cache(record).await?),
                Some(_) | None => {}
            }
        }
        let at = |place: u8, rest: &[u8]| Some(Cursor([&[place], rest].concat().into()));
        let next = match page.next {
            Some(next) => at(place, &next.0),
            None if place == TASKS => at(CACHE, &[]),
            None => None,
        };
        Ok((lines, next))
    }

    fn cache_tag(&self, tenant: &Tenant) -> Result<Option<Tag>, QueueError> {
        let surface = Surface::new(SURFACE).map_err(EngineError::from)?;
        Ok(Some(Tag::tenant(&surface, tenant)))
    }

    /// Only what is answered from is carried along.
    async fn of_cache(&self, id: &hapax_core::Id) -> Result<Option<LogLine>, QueueError> {
        let Some(mut operation) = self.engine.operation(id).await?.record else { return Ok(None) };
        match &mut operation.state {
            State::Committed(done) | State::Rejected(done) => {
                done.outcome = self.engine.with_body(done.outcome.clone()).await?;
            }
            State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Tombstone(_) => return Ok(None),
        }
        operation.evidence.clear();
        let record = BASE64.encode(&codec::seal(&operation).payload);
        Ok(Some(LogLine::ResultCached { operation: id.to_string(), record }))
    }
}

fn of_task(task: &Task) -> Vec<LogLine> {
    let order = &task.order;
    let task_id = order.id.to_string();
    if let TaskState::Compacted { .. } = task.state {
        return vec![LogLine::TaskCompacted {
            task_id,
            digest: HEXLOWER.encode(&order.digest),
            sender: order.sender.key.to_string(),
            recipient: order.recipient.key.to_string(),
        }];
    }
    let peer =
        |peer: &hapax_core::task::Peer| PeerLine { key: peer.key.to_string(), display: peer.display.to_string() };
    let mut lines = vec![LogLine::TaskSent {
        at: task.sent_wall.0,
        task: Box::new(TaskLine {
            id: task_id.clone(),
            sender: peer(&order.sender),
            recipient: peer(&order.recipient),
            kind: order.kind.to_string(),
            intent: order.intent.to_string(),
            payload: Content::of(order.payload.json, &order.payload.bytes),
            parent: order.parent.map(|parent| parent.to_string()),
            deadline: order.deadline.map(|deadline| deadline.wall.0),
            idempotency: order
                .idempotency
                .as_ref()
                .map(|known| IdempotencyLine { class: known.class.name().to_owned(), key: known.key.to_string() }),
            attempt: task.attempt,
            number: task.number,
        }),
    }];
    match &task.state {
        TaskState::Leased(leased) => lines.push(LogLine::TaskLeased {
            at: leased.since_wall.0,
            lease_id: LeaseId::of(&order.id, leased.token).to_string(),
            attempt: task.attempt,
            owner: leased.owner.to_string(),
            task_id,
        }),
        TaskState::Resolved(resolved) => {
            let bytes = match &resolved.outcome.body {
                Body::Inline(bytes) => bytes.to_bytes(),
                Body::Empty | Body::Stored { .. } | Body::Uncaptured { .. } | Body::Handle(_) => bytes::Bytes::new(),
            };
            lines.push(LogLine::ResultPosted {
                at: resolved.wall.0,
                task_id: task_id.clone(),
                how: how(resolved.how).to_owned(),
                status: resolved.outcome.status,
                class: resolved.outcome.class.number(),
                attempt: task.attempt,
                result: Content::of(TaskResult::is_json(&resolved.outcome), &bytes),
            });
            lines.extend(resolved.acked.map(|at| LogLine::ResultDelivered { at: at.0, task_id }));
        }
        TaskState::Sent { .. } | TaskState::Queued { .. } | TaskState::Joined { .. } | TaskState::Compacted { .. } => {}
    }
    lines
}

/// How a result came about, in a word.
#[must_use]
pub(crate) const fn how(how: How) -> &'static str {
    match how {
        How::Posted(_) => "posted",
        How::Replayed => "replayed",
        How::Joined(_) => "joined",
        How::Forced => "forced",
        How::Expired => "expired",
    }
}
