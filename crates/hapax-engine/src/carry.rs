//! Read, decide, swap: how a command reaches a record.
//!
//! Each command can be said again: it carries a token, a nonce or a version by which its own earlier write is
//! recognised. So a write of unknown fate needs no special path: the record is read again and the command applied to
//! what is there. Should the late write land after all, one of the two only conflicts.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use bytes::Bytes;
use hapax_core::{Command, Id, Moment, Policy, Record, Reply, Stamp, Step, Tag, Version, Write, apply, record::About};
use hapax_store::{BodyId, StoreError, Swap, Usage, codec};

use crate::{disown::Sent, engine::Inner, seen::Seen, stats::count};

/// A command that was carried out.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) reply: Reply,
    /// The record as it stands after it.
    pub(crate) seen: Seen,
    /// The version against which a write of unknown fate was sent on the way.
    pub(crate) unsettled: Option<Version>,
}

/// A command that could not be carried out.
#[derive(Debug)]
pub(crate) struct NotCarried {
    pub(crate) error: StoreError,
    pub(crate) unsettled: Option<Version>,
}

impl From<NotCarried> for StoreError {
    fn from(failed: NotCarried) -> Self {
        failed.error
    }
}

impl Inner {
    pub(crate) async fn read(&self, id: &Id) -> Result<Seen, StoreError> {
        let mut tries = Tries::new(self);
        loop {
            let mark = self.gate.mark(id);
            match self.in_time("get", self.store.get(id)).await {
                Ok(snapshot) => return Ok(self.seen(&snapshot, id)?.marked(mark)),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    /// Repeating it is harmless, so an unknown fate is a reason to do just that.
    pub(crate) async fn put_body(&self, id: &Id, body: BodyId, bytes: Bytes) -> Result<(), StoreError> {
        let mut tries = Tries::new(self);
        loop {
            match self.in_time("put_body", self.store.put_body(id, body, bytes.clone())).await {
                Ok(()) => return Ok(()),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    pub(crate) async fn get_body(&self, body: BodyId) -> Result<Option<Bytes>, StoreError> {
        let mut tries = Tries::new(self);
        loop {
            match self.in_time("get_body", self.store.get_body(body)).await {
                Ok(found) => return Ok(found),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    pub(crate) async fn usage(&self, tag: Tag) -> Result<Usage, StoreError> {
        let mut tries = Tries::new(self);
        loop {
            match self.in_time("usage", self.store.usage(tag)).await {
                Ok(usage) => return Ok(usage),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    /// Applies a command to the record, starting from what is known of it.
    ///
    /// `about` is what the event is told about where no record names it. The command is lent: it is large, and would be
    /// moved with each future that it goes through.
    pub(crate) fn carry<'a>(
        &'a self,
        policy: &'a Policy,
        id: &'a Id,
        seen: Seen,
        about: &'a Arc<About>,
        command: &'a Command,
    ) -> impl Future<Output = Result<Carried, NotCarried>> + Send + 'a {
        self.carry_told(policy, id, seen, about, command, None, None)
    }

    /// Carries a begin and tells on the way what was sent, for a caller that may go away before the answer.
    pub(crate) fn carry_begin<'a>(
        &'a self,
        policy: &'a Policy,
        id: &'a Id,
        seen: Seen,
        about: &'a Arc<About>,
        begin: &'a Command,
        sent: &'a Sent,
    ) -> impl Future<Output = Result<Carried, NotCarried>> + Send + 'a {
        self.carry_told(policy, id, seen, about, begin, None, Some(sent))
    }

    pub(crate) async fn carry_as(
        &self,
        policy: &Policy,
        id: &Id,
        seen: Seen,
        about: &Arc<About>,
        command: &Command,
        actor: Option<Arc<str>>,
    ) -> Result<Carried, NotCarried> {
        self.carry_told(policy, id, seen, about, command, actor, None).await
    }

    #[allow(clippy::too_many_arguments, reason = "the one loop behind the three above")]
    async fn carry_told(
        &self,
        policy: &Policy,
        id: &Id,
        mut seen: Seen,
        about: &Arc<About>,
        command: &Command,
        actor: Option<Arc<str>>,
        sent: Option<&Sent>,
    ) -> Result<Carried, NotCarried> {
        let mut tries = Tries::new(self);
        let mut unsettled = None;
        loop {
            // Of nothing, nothing lapses: then the time is not asked.
            let now = if seen.record.is_some() { self.now(&seen) } else { Stamp(0) };
            let moment = Moment { now, wall: self.wall_now() };
            let mut step = apply(policy, seen.current(), command, moment);
            let next = match std::mem::replace(&mut step.write, Write::Nothing) {
                Write::Nothing if !seen.fresh => {
                    seen = Box::pin(self.read(id)).await.map_err(|error| NotCarried { error, unsettled })?;
                    continue;
                }
                Write::Nothing => {
                    self.tell(id, about, &step, moment.wall, actor);
                    return Ok(Carried { reply: step.reply, seen, unsettled });
                }
                Write::Put(_) | Write::Remove if seen.is_other => {
                    let error = self.corrupt(id, "a record of another kind is where an operation is to be".to_owned());
                    return Err(NotCarried { error, unsettled });
                }
                Write::Put(record) => Some(record),
                Write::Remove => None,
            };
            if let Some(sent) = sent {
                sent.set(seen.version);
            }
            match self.write(id, &seen, next, &mut step).await {
                Ok(Written::Swapped(after)) => {
                    // An answer alone leaves the lapse as it was: the next one finds it, too.
                    if step.event.as_ref().is_some_and(|event| event.found_lapsed) {
                        count(&self.counters.lapsed);
                    }
                    self.tell(id, about, &step, moment.wall, actor);
                    // Of what was never written before, the gate knows nothing that it would have to forget.
                    if seen.version != Version::NEVER {
                        self.warm(id, &after);
                    }
                    for body in &step.drop_bodies {
                        Box::pin(self.drop_body(*body)).await;
                    }
                    return Ok(Carried { reply: step.reply, seen: after, unsettled });
                }
                Ok(Written::Conflict(now)) => {
                    // This write did not happen; an earlier one of unknown fate may have.
                    match (sent, unsettled) {
                        (Some(sent), None) => sent.clear(),
                        (Some(sent), Some(before)) => sent.set(before),
                        (None, _) => {}
                    }
                    seen = now;
                }
                Err(error) => {
                    if error.is_unknown() {
                        unsettled = Some(seen.version);
                    }
                    let read = async {
                        tries.again(error).await?;
                        self.read(id).await
                    };
                    seen = Box::pin(read).await.map_err(|error| NotCarried { error, unsettled })?;
                }
            }
        }
    }

    async fn write(
        &self,
        id: &Id,
        seen: &Seen,
        next: Option<Arc<Record>>,
        step: &mut Step,
    ) -> Result<Written, StoreError> {
        if let Some((body, bytes)) = step.put_body.take() {
            Box::pin(self.put_body(id, body, bytes)).await?;
        }
        let mut envelope = next.as_deref().map(codec::seal);
        let weighed = self.quotas.weigh(envelope.as_ref());
        let mark = self.gate.mark(id);
        let swapped = match self.store.swap_now(id, seen.version, &mut envelope) {
            Some(at_once) => at_once,
            None => self.in_time("swap", self.store.swap(id, seen.version, envelope)).await,
        };
        if !matches!(swapped, Ok(Swap::Conflict(_))) {
            self.quotas.wrote(weighed);
        }
        match swapped? {
            Swap::Swapped { version, stamp } => Ok(Written::Swapped(self.written(next, version, stamp).marked(mark))),
            Swap::Conflict(snapshot) => Ok(Written::Conflict(self.seen(&snapshot, id)?.marked(mark))),
        }
    }

    /// A body that cannot be dropped now is an orphan; the sweeper finds it.
    async fn drop_body(&self, body: BodyId) {
        let _swept_later = self.in_time("drop_body", self.store.drop_body(body)).await;
    }

    /// A store call that takes too long has an unknown fate.
    pub(crate) async fn in_time<T>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut answer = pin!(answer);
        // Most answers are there at once; those need no timer.
        let mut late = pin!(None);
        poll_fn(|cx| {
            if let Poll::Ready(answered) = answer.as_mut().poll(cx) {
                return Poll::Ready(answered);
            }
            if late.is_none() {
                // A store that takes all of its task's turn each time is late all the same.
                late.set(Some(tokio::task::unconstrained(tokio::time::sleep(self.settings.store_timeout))));
            }
            match late.as_mut().as_pin_mut() {
                Some(late) => late.poll(cx).map(|()| Err(self.lost(call))),
                // It was set just now.
                None => Poll::Pending,
            }
        })
        .await
    }

    fn lost(&self, call: &'static str) -> StoreError {
        StoreError::Unknown {
            store: self.store_name.clone(),
            reason: format!("no answer to `{call}` within {:?}", self.settings.store_timeout),
        }
    }
}

enum Written {
    Swapped(Seen),
    Conflict(Seen),
}

/// How often one call goes on after a store error.
pub(crate) struct Tries<'a> {
    inner: &'a Inner,
    left: u32,
    wait: std::time::Duration,
}

impl<'a> Tries<'a> {
    pub(crate) const fn new(inner: &'a Inner) -> Self {
        Self { inner, left: inner.settings.store_retries, wait: inner.settings.store_backoff }
    }

    /// Waits and lets the caller try again, or gives the error back.
    pub(crate) async fn again(&mut self, error: StoreError) -> Result<(), StoreError> {
        if !error.is_passing() || self.left == 0 {
            return Err(error);
        }
        self.left -= 1;
        count(&self.inner.counters.store_retries);
        tokio::time::sleep(self.wait).await;
        self.wait = self.wait.saturating_mul(4).min(std::time::Duration::from_secs(1));
        Ok(())
    }
}
