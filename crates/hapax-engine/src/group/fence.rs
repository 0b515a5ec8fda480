//! The epoch fence: a start is written first, then the group is asked. What it refuses is taken back.
//!
//! The other side, supersede, raises the epoch first and looks at the members then. So one of the two sees the other.
//!
//! Few calls are in a group. What only those need is set apart in memory of its own, so that the others do not carry the room
//! for it with them while they wait.

use hapax_core::{
    Command, Id, Policy, Record, State, Token, Verdict,
    command::Epochs,
    group::{Group, GroupCommand, GroupReply, WhyNot, is_listed, may_start, may_start_as},
    record::End,
};
use hapax_store::StoreError;

use crate::{
    begin::{Nonces, Unsure},
    call::Prepared,
    carry::Carried,
    compensate::undoable,
    engine::{Engine, Inner},
    error::EngineError,
    group::GroupError,
    seen::Seen,
    steps::Stepped,
};

impl Engine {
    /// The call with the epoch that its group has now. Whoever is overtaken by then still gets recorded answers, and
    /// takes no key. The write that follows is checked again: this look saves it, it does not decide.
    pub(crate) async fn with_epoch_of_now(&self, prepared: &Prepared) -> Result<Option<Box<Prepared>>, EngineError> {
        let (Some(group), Some(Epochs { caller, .. })) = (prepared.group(), prepared.epoch) else { return Ok(None) };
        let looked = Box::pin(self.inner.look_at::<Group>(&group)).await?;
        let current = match may_start(looked.record.as_ref(), caller, looked.now) {
            Ok(()) => caller,
            // Whatever else stands in the way of a start, it is as if somebody newer did.
            Err(
                WhyNot::Superseded { .. }
                | WhyNot::Absent
                | WhyNot::Committed { .. }
                | WhyNot::Unwinding
                | WhyNot::Closed
                | WhyNot::Full,
            ) => u64::MAX,
        };
        // What can be undone is listed by the group, which is where undoing starts from.
        let compensated = prepared.ties.as_ref().is_some_and(|ties| ties.compensation.is_some());
        let effect = if compensated { undoable(prepared.effect) } else { prepared.effect };
        let mut now = Box::new(prepared.clone());
        now.epoch = Some(Epochs { caller, current });
        now.effect = effect;
        // Kept as long as its group is open, also where nobody said how to undo it: whoever undoes the group has to be
        // told that it stands.
        if is_listed(effect) {
            now.hold();
        }
        Ok(Some(now))
    }

    /// Why the group of this call does not let it start; `None` where it does by now, or there is no group.
    pub(crate) async fn why_fenced(&self, prepared: &Prepared) -> Result<Option<GroupError>, EngineError> {
        let (Some(group), Some(Epochs { caller, .. })) = (prepared.group(), prepared.epoch) else { return Ok(None) };
        let looked = self.inner.look_at::<Group>(&group).await?;
        let may = may_start_as(looked.record.as_ref(), caller, prepared.effect, looked.now);
        Ok(may.err().map(|why| GroupError::Refused { group, why }))
    }

    /// A begin that is a start is checked after its write and before its ticket is given. True: it was refused, and
    /// taken back.
    pub(crate) async fn refused_by_group(
        &self,
        prepared: &Prepared,
        nonce: hapax_core::Nonce,
        whose: Nonces,
        carried: &Carried,
    ) -> Result<bool, Unsure> {
        let Some(record) = carried.seen.record.as_deref().filter(|record| is_started_member(record)) else {
            return Ok(false);
        };
        let version = carried.seen.version;
        // Nobody was given the ticket, so what cannot be settled now is taken back later.
        let unsure = |error: StoreError| Unsure { error: error.into(), unsettled: Some(version), waited: false };
        if Box::pin(self.inner.may_go_on(&prepared.id, record)).await.map_err(unsure)?.is_ok() {
            return Ok(false);
        }
        let (seen, command) = (carried.seen.clone(), Command::Unstart { token: record.token() });
        let about = prepared.about(&self.inner);
        let taken_back = Box::pin(self.inner.carry(&prepared.policy, &prepared.id, seen, about, &command)).await;
        if taken_back.is_err() && whose == Nonces::Ours {
            self.disown_later(prepared, nonce, version);
        }
        Ok(true)
    }
}

impl Engine {
    /// An overtaken caller that comes back with a nonce whose start had landed unheard. Where its group lists that start
    /// it was let through then, and a newer turn was told of it, so it cannot be refused any more: it is to ask as it
    /// would have then. `None`: it is refused.
    pub(crate) async fn let_through_before(
        &self,
        prepared: &Prepared,
        nonce: hapax_core::Nonce,
        carried: &Carried,
    ) -> Result<Option<Box<Prepared>>, Unsure> {
        let Some(record) = carried.seen.record.as_deref() else { return Ok(None) };
        let Some(Epochs { caller, .. }) = prepared.epoch else { return Ok(None) };
        let ours = record.attempt.nonce == nonce && record.attempt.epoch == Some(caller);
        if !ours || !was_started(record) || !is_listed(record.effect) {
            return Ok(None);
        }
        let version = carried.seen.version;
        let unsure = |error: StoreError| Unsure { error: error.into(), unsettled: Some(version), waited: false };
        if self.inner.may_go_on(&prepared.id, record).await.map_err(unsure)?.is_err() {
            return Ok(None);
        }
        let mut then = Box::new(prepared.clone());
        then.epoch = Some(Epochs { caller, current: caller });
        Ok(Some(then))
    }

    /// An overtaken caller that comes back with a nonce whose begin had landed unheard: nobody ran under it and nobody
    /// will, so it does not stay to lapse into doubt.
    pub(crate) async fn take_back_if_ours(
        &self,
        prepared: &Prepared,
        nonce: hapax_core::Nonce,
        verdict: &Verdict,
        carried: &Carried,
    ) {
        let Some(record) = carried.seen.record.as_deref() else { return };
        if !matches!(verdict, Verdict::Fenced) || record.attempt.nonce != nonce || prepared.group().is_none() {
            return;
        }
        let (seen, command) = (carried.seen.clone(), Command::Unstart { token: record.token() });
        // Where the store does not take it, the lapse says what it has to.
        let about = prepared.about(&self.inner);
        let _lapses = Box::pin(self.inner.carry(&prepared.policy, &prepared.id, seen, about, &command)).await;
    }
}

/// Whether the latest attempt was marked as started, also where its lapse was written down since.
const fn was_started(record: &Record) -> bool {
    match &record.state {
        State::Pending(pending) => pending.started,
        State::Open(_) | State::InDoubt(_) => matches!(record.attempt.end, End::Lapsed { started: true }),
        State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => false,
    }
}

fn is_started_member(record: &Record) -> bool {
    let started = matches!(&record.state, State::Pending(pending) if pending.started);
    started && record.ties.as_ref().is_some_and(|ties| ties.group.is_some())
}

impl Inner {
    /// Asks the group of a start that was written whether it may go on: by compare-and-set where the start has to be
    /// listed, else by a read.
    pub(crate) async fn may_go_on(&self, id: &Id, record: &Record) -> Result<Result<(), WhyNot>, StoreError> {
        let Some(group) = record.ties.as_ref().and_then(|ties| ties.group) else { return Ok(Ok(())) };
        // A member without an epoch is of no turn that could go on.
        let epoch = record.attempt.epoch.unwrap_or(0);
        if !is_listed(record.effect) {
            let looked = self.look_at::<Group>(&group).await?;
            return Ok(may_start(looked.record.as_ref(), epoch, looked.now));
        }
        let attempt = record.attempt.number;
        let start = GroupCommand::Start { member: *id, attempt, epoch, effect: record.effect };
        Ok(match self.ask(&group, &start).await? {
            GroupReply::Started { .. } => Ok(()),
            GroupReply::Refused(why) => Err(why),
            // No start is answered so.
            GroupReply::Made { .. } | GroupReply::Raised { .. } | GroupReply::Done { .. } => Err(WhyNot::Absent),
        })
    }

    /// What a *start* comes to once its group was asked.
    pub(crate) async fn start_in_group(
        &self,
        policy: &Policy,
        id: &Id,
        token: Token,
        stepped: Stepped,
        seen: Seen,
    ) -> Result<Stepped, EngineError> {
        let Stepped::Done(done) = &stepped else { return Ok(stepped) };
        let Some(record) = seen.record.clone().filter(|record| is_started_member(record)) else { return Ok(stepped) };
        if self.may_go_on(id, &record).await?.is_ok() {
            return Ok(stepped);
        }
        // Said again by somebody who may already be at it: then only that owner can say that nothing happened. Of what
        // has to be listed the group knows that it was never let through.
        if !done.already || is_listed(record.effect) {
            self.carry(policy, id, seen, &record.about, &Command::Unstart { token }).await.map_err(StoreError::from)?;
        }
        Ok(Stepped::Fenced)
    }
}
