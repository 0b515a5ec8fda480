use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use hapax_core::{
    Anchor, Body, Id, Outcome, OutcomeClass, Tag, Token, WallMillis,
    identity::{Surface, Tenant},
    task::{Class, How, Idempotency, Leased, Order, Payload, Resolved, SURFACE, Task, TaskId, TaskState},
};
use hapax_engine::EngineError;
use hapax_store::{Counted, Envelope, Kind, Swap, codec};

use super::line::{Content, LogLine, TaskLine};
use crate::{NewTask, Queue, QueueError, Refused};

/// What an import did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ImportReport {
    pub tasks: u64,
    pub cached: u64,
    /// They were there already, and stay as they are.
    pub known: u64,
    /// The last line was not whole and was left out; its number.
    pub torn: Option<u64>,
}

impl Queue {
    /// Reads a log into the store. What is there already stays as it is; a torn last line is reported and skipped.
    pub async fn import(&self, tenant: &Tenant, log: &str) -> Result<ImportReport, QueueError> {
        let mut report = ImportReport::default();
        let mut tasks: BTreeMap<TaskId, Task> = BTreeMap::new();
        let lines: Vec<(u64, &str)> = (1_u64..).zip(log.lines()).filter(|(_, line)| !line.trim().is_empty()).collect();
        let last = lines.last().map(|(number, _)| *number);
        for (number, text) in lines {
            let line: LogLine = match serde_json::from_str(text) {
                Ok(line) => line,
                Err(_) if Some(number) == last && !log.ends_with('\n') => {
                    report.torn = Some(number);
                    break;
                }
                Err(error) => return Err(bad(number, &error.to_string())),
            };
            match line {
                LogLine::ResultCached { operation, record } => {
                    let stored = self.import_cached(tenant, &operation, &record).await?;
                    match stored.ok_or_else(|| bad(number, "its record cannot be read"))? {
                        true => report.cached += 1,
                        false => report.known += 1,
                    }
                }
                line @ (LogLine::TaskSent { .. }
                | LogLine::TaskLeased { .. }
                | LogLine::ResultPosted { .. }
                | LogLine::ResultDelivered { .. }
                | LogLine::TaskCompacted { .. }) => {
                    self.gather(tenant, &mut tasks, line).map_err(|what| bad(number, what))?;
                }
            }
        }
        for (id, task) in tasks {
            let record = id.record(tenant.as_str());
            let written = self.engine.decide_new(&record, |found: Option<&Task>, _| match found {
                Some(_) => (None, false),
                None => (Some(task.clone()), true),
            });
            match written.await? {
                true => {
                    report.tasks += 1;
                    self.lead(&task).await?;
                }
                false => report.known += 1,
            }
            self.ring_for(Some(&task));
        }
        Ok(report)
    }

    /// What is in flight leads its key, unless somebody does: a task that is sent under it joins, and does not run beside it.
    async fn lead(&self, task: &Task) -> Result<(), QueueError> {
        if let (TaskState::Leased(_), Some(cache)) = (&task.state, task.order.cache) {
            let _either = self.claim(task, cache, None).await?;
        }
        Ok(())
    }

    fn gather(&self, tenant: &Tenant, tasks: &mut BTreeMap<TaskId, Task>, line: LogLine) -> Result<(), &'static str> {
        let of = |id: &str| TaskId::parse(id).ok_or("its task id is no UUID");
        match line {
            LogLine::TaskSent { at, task } => {
                let task = self.task_of(tenant, &task, at)?;
                tasks.insert(task.order.id, task);
            }
            LogLine::TaskLeased { at, task_id, lease_id: _, attempt, owner } => {
                let found = tasks.get_mut(&of(&task_id)?).ok_or("its task was not sent before")?;
                // Whoever holds it has no token that counts here. It is in flight all the same: only a repair hands it out.
                let nonce = self.engine.nonce().map_err(|_| "there is no randomness")?;
                let number = found.number.max(1);
                found.number = number;
                found.attempt = attempt.max(1);
                found.state = TaskState::Leased(Box::new(Leased {
                    token: Token { attempt: number, nonce },
                    owner: owner.into(),
                    request: None,
                    since_wall: WallMillis(at),
                    lease: None,
                    order: self.place(),
                    place: self.place(),
                }));
            }
            LogLine::ResultPosted { at, task_id, how, status, class, attempt, result } => {
                let found = tasks.get_mut(&of(&task_id)?).ok_or("its task was not sent before")?;
                let class = OutcomeClass::from_number(class).ok_or("its class is unknown")?;
                let outcome = outcome(class, status, &result).ok_or("its result cannot be read")?;
                let nonce = self.engine.nonce().map_err(|_| "there is no randomness")?;
                found.attempt = attempt;
                let how = match how.as_str() {
                    "replayed" => How::Replayed,
                    "joined" => How::Joined(found.order.id),
                    "forced" => How::Forced,
                    "expired" => How::Expired,
                    _ => How::Posted(Token { attempt: found.number, nonce }),
                };
                found.state = TaskState::Resolved(Box::new(Resolved {
                    outcome,
                    how,
                    wall: WallMillis(at),
                    acked: None,
                    order: self.place(),
                }));
            }
            LogLine::ResultDelivered { at, task_id } => {
                let found = tasks.get_mut(&of(&task_id)?).ok_or("its task was not sent before")?;
                match &mut found.state {
                    TaskState::Resolved(resolved) => resolved.acked = Some(WallMillis(at)),
                    TaskState::Sent { .. }
                    | TaskState::Joined { .. }
                    | TaskState::Queued { .. }
                    | TaskState::Leased(_)
                    | TaskState::Compacted { .. } => return Err("its task has no result"),
                }
            }
            LogLine::TaskCompacted { task_id, digest, sender, recipient } => {
                let id = of(&task_id)?;
                let digest = HEXLOWER.decode(digest.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
                let new = NewTask::new(id, &sender, &recipient, "-", Payload { json: false, bytes: Bytes::new() });
                let mut task = self.plain(tenant, new, 0)?;
                let order = Arc::make_mut(&mut task.order);
                order.kind = "".into();
                order.digest = digest.ok_or("its digest cannot be read")?;
                task.state = TaskState::Compacted { since: Anchor::Write };
                tasks.insert(id, task);
            }
            // Handled before.
            LogLine::ResultCached { .. } => {}
        }
        Ok(())
    }

    fn task_of(&self, tenant: &Tenant, line: &TaskLine, at: u64) -> Result<Task, &'static str> {
        let id = TaskId::parse(&line.id).ok_or("its task id is no UUID")?;
        let payload = line.payload.payload().ok_or("its payload cannot be read")?;
        let mut new = NewTask::new(id, &line.sender.key, &line.recipient.key, &line.kind, payload);
        new.sender.display = line.sender.display.as_str().into();
        new.recipient.display = line.recipient.display.as_str().into();
        new.intent = line.intent.clone();
        new.parent = match &line.parent {
            Some(parent) => Some(TaskId::parse(parent).ok_or("its parent is no UUID")?),
            None => None,
        };
        new.deadline = line.deadline.map(WallMillis);
        new.idempotency = match &line.idempotency {
            Some(known) => Some(Idempotency {
                class: Class::parse(&known.class).ok_or("its idempotency class is unknown")?,
                key: known.key.as_str().into(),
            }),
            None => None,
        };
        let mut task = self.plain(tenant, new, at)?;
        task.attempt = line.attempt;
        task.number = line.number;
        Ok(task)
    }

    fn plain(&self, tenant: &Tenant, new: NewTask, at: u64) -> Result<Task, &'static str> {
        let moment = self.engine.moment();
        let order: Order = new
            .checked(tenant, self.settings(), moment, |task| self.cache_of_new(tenant, task))
            .map_err(|_| "the task itself would be refused")?;
        let place = self.place();
        let state = match order.cache {
            Some(_) => TaskState::Sent { order: place },
            None => TaskState::Queued { order: place },
        };
        Ok(Task {
            about: self.about(tenant).map_err(|_| "the tenant has no name")?,
            order: Arc::new(order),
            state,
            attempt: 0,
            number: 0,
            sent: Anchor::Write,
            sent_wall: WallMillis(at),
            repairs: Vec::new(),
            evidence: Vec::new(),
        })
    }

    /// `None`: it cannot be read. False: there is an answer already.
    async fn import_cached(&self, tenant: &Tenant, id: &str, record: &str) -> Result<Option<bool>, QueueError> {
        let surface = Surface::new(SURFACE).map_err(EngineError::from)?;
        let (Some(id), Ok(bytes)) = (Id::parse(id), BASE64.decode(record.as_bytes())) else { return Ok(None) };
        let bare = Envelope {
            kind: Kind::OPERATION,
            surface: Tag::surface(&surface),
            tenant: Tag::tenant(&surface, tenant),
            counted: Counted::Record,
            lease_end: None,
            expiry: None,
            gone: None,
            in_doubt: false,
            entries: Vec::new(),
            beside: 0,
            payload: bytes.into(),
        };
        // Sealed anew, so that what a store is told follows from the record and not from the file.
        let Ok(mut operation) = codec::open(&bare) else { return Ok(None) };
        if hapax_core::final_answer(&operation).is_none() || *operation.about.tenant != *tenant.as_str() {
            return Ok(None);
        }
        operation.evidence.clear();
        let snapshot = self.engine.store().get(&id).await.map_err(EngineError::from)?;
        if snapshot.record.is_some() {
            return Ok(Some(false));
        }
        let sealed = codec::seal(&operation);
        let swapped = self.engine.store().swap(&id, snapshot.version, Some(sealed)).await.map_err(EngineError::from)?;
        Ok(Some(matches!(swapped, Swap::Swapped { .. })))
    }
}

fn outcome(class: OutcomeClass, status: u16, result: &Content) -> Option<Outcome> {
    let Payload { json, bytes } = result.payload()?;
    let content = Bytes::from_static(if json { b"json" } else { b"bytes" });
    Some(Outcome { class, status, headers: vec![("content".into(), content)], body: Body::Inline(bytes.into()) })
}

fn bad(line: u64, what: &str) -> QueueError {
    Refused::BadLine { line, what: what.to_owned() }.into()
}
