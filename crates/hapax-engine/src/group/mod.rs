//! Groups and turns: a lineage of operations with an epoch, and who may still start something in it.
//!
//! A [`Turn`] is one epoch of a group. A call that is made in a turn is fenced once a newer turn has begun, before its
//! effect; a supersede is told what had started by then. The group's record decides (`hapax_core::group`).

mod close;
mod error;
mod fence;
mod follow;
mod supersede;

use std::sync::Arc;

use hapax_core::{
    Id, Nonce,
    command::Epochs,
    group::{Group, GroupCommand, GroupReply, WhyNot, apply_group, group_as_read, may_start, may_supersede},
    identity::{Grammar, Key, Surface, Tenant},
    record::About,
};
use hapax_store::{Level, StoreError};

use crate::{
    call::{Call, IntoTenant},
    engine::{Engine, Inner},
    error::EngineError,
    kinds::Looked,
};

pub use error::GroupError;
pub use follow::Progress;
pub use supersede::{Reported, Superseded};

/// The surface under which groups are counted.
const SURFACE: &str = "group";

/// A group as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupView {
    pub id: Id,
    pub group: Group,
}

/// One group, by its name.
#[derive(Clone, Debug)]
pub struct GroupHandle {
    engine: Engine,
    id: Id,
    tenant: Tenant,
    about: Arc<About>,
}

/// One epoch of a group: what a conversation attempt, a run or a saga makes its calls in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    pub(crate) group: Id,
    pub(crate) tenant: Tenant,
    pub(crate) epoch: u64,
}

impl Turn {
    #[must_use]
    pub const fn group(&self) -> Id {
        self.group
    }

    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    #[must_use]
    pub const fn tenant(&self) -> &Tenant {
        &self.tenant
    }
}

impl Engine {
    /// A group of this tenant. The name is as private as a key: only its digest is stored.
    pub fn group(&self, tenant: impl IntoTenant, name: &str) -> Result<GroupHandle, EngineError> {
        let tenant = tenant.into_tenant()?;
        let key = Key::new(name, &Grammar::visible())?;
        let surface = Surface::new(SURFACE)?;
        let id = Id::derived("hapax.group.v1", &[tenant.as_str().as_bytes(), name.as_bytes()]);
        let about = self.inner.about(&surface, &tenant, &key);
        Ok(GroupHandle { engine: self.clone(), id, tenant, about })
    }
}

impl Engine {
    /// A group that exists, by its id; `None` if there is none. Whose it is says [`GroupHandle::tenant`].
    pub async fn group_by_id(&self, id: &Id) -> Result<Option<GroupHandle>, EngineError> {
        let looked = match self.inner.look_at::<Group>(id).await {
            Ok(looked) => looked,
            // It is something else.
            Err(StoreError::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(group) = looked.record.filter(|group| group_as_read(group, looked.now).is_some()) else {
            return Ok(None);
        };
        let tenant = Tenant::new(&group.about.tenant)?;
        Ok(Some(GroupHandle { engine: self.clone(), id: *id, tenant, about: group.about }))
    }
}

impl GroupHandle {
    #[must_use]
    pub const fn id(&self) -> Id {
        self.id
    }

    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) const fn about(&self) -> &Arc<About> {
        &self.about
    }

    #[must_use]
    pub const fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Makes the group, or finds it; either way its current turn.
    pub async fn create(&self) -> Result<Turn, GroupError> {
        self.made(None).await
    }

    /// QUEUE: the next message gets a group of its own, which knows where it comes from.
    pub async fn fork(&self, name: &str) -> Result<Turn, GroupError> {
        let fork = self.engine.group(&self.tenant, name)?;
        fork.made(Some(self.id)).await
    }

    /// FORCE_COMPLETE: this turn is let finish, whatever comes; the later message gets a group of its own.
    pub async fn force_complete(&self, name: &str) -> Result<Turn, GroupError> {
        match self.ask(GroupCommand::Commit).await? {
            GroupReply::Refused(why @ (WhyNot::Absent | WhyNot::Unwinding)) => return Err(self.refused(why)),
            // Closed is as finished as can be.
            GroupReply::Refused(WhyNot::Closed)
            | GroupReply::Done { .. }
            | GroupReply::Made { .. }
            | GroupReply::Raised { .. }
            | GroupReply::Started { .. } => {}
            GroupReply::Refused(why @ (WhyNot::Superseded { .. } | WhyNot::Committed { .. } | WhyNot::Full)) => {
                return Err(self.refused(why));
            }
        }
        self.fork(name).await
    }

    /// ABSORB: one more message belongs to this turn. Refused past the commit point, or once the turn was superseded.
    pub async fn absorb(&self, turn: &Turn) -> Result<(), GroupError> {
        self.done(GroupCommand::Absorb { epoch: turn.epoch }).await
    }

    /// A commit point: from here on no supersede and no absorb, for good. Starts are as before.
    pub async fn commit(&self) -> Result<(), GroupError> {
        self.done(GroupCommand::Commit).await
    }

    /// Marks the group as being undone: from here on nothing starts in it.
    pub(crate) async fn mark_unwinding(&self) -> Result<(), GroupError> {
        self.done(GroupCommand::Unwind).await
    }

    /// The turn of this epoch, for a process that was told its number.
    #[must_use]
    pub fn turn(&self, epoch: u64) -> Turn {
        Turn { group: self.id, tenant: self.tenant.clone(), epoch }
    }

    /// Whether the group may be superseded, and if not, why.
    pub async fn may_supersede(&self) -> Result<Result<(), WhyNot>, GroupError> {
        let looked = self.look().await?;
        Ok(may_supersede(looked.record.as_ref(), looked.now))
    }

    /// Whether a call in this turn would be let start, and if not, why.
    pub async fn may_start(&self, turn: &Turn) -> Result<Result<(), WhyNot>, GroupError> {
        let looked = self.look().await?;
        Ok(may_start(looked.record.as_ref(), turn.epoch, looked.now))
    }

    /// The group as it stands, if there is one.
    pub async fn view(&self) -> Result<Option<GroupView>, GroupError> {
        let looked = self.look().await?;
        let group = looked.record.filter(|group| group_as_read(group, looked.now).is_some());
        Ok(group.map(|group| GroupView { id: self.id, group }))
    }

    async fn made(&self, parent: Option<Id>) -> Result<Turn, GroupError> {
        let level = self.engine.inner.store.level();
        if level < Level::Full {
            let store = self.engine.inner.store_name.clone();
            return Err(GroupError::Level { store });
        }
        self.engine.sweep_from_now_on();
        let inner = &self.engine.inner;
        // Counted only where one more is really made.
        let _room = match self.look().await?.record {
            Some(_) => None,
            None => {
                let policy = inner.policy_of(&self.about);
                Some(inner.room_for(&policy, &self.about).await.map_err(EngineError::from)??)
            }
        };
        match self.ask(GroupCommand::Create { about: Arc::clone(&self.about), parent }).await? {
            GroupReply::Made { epoch, already: _ } => Ok(self.turn(epoch)),
            reply @ (GroupReply::Raised { .. }
            | GroupReply::Started { .. }
            | GroupReply::Done { .. }
            | GroupReply::Refused(_)) => Err(self.refused(why_of(&reply))),
        }
    }

    async fn done(&self, command: GroupCommand) -> Result<(), GroupError> {
        match self.ask(command).await? {
            GroupReply::Done { .. } => Ok(()),
            reply @ (GroupReply::Made { .. }
            | GroupReply::Raised { .. }
            | GroupReply::Started { .. }
            | GroupReply::Refused(_)) => Err(self.refused(why_of(&reply))),
        }
    }

    async fn look(&self) -> Result<Looked<Group>, GroupError> {
        Ok(self.engine.inner.look_at(&self.id).await.map_err(EngineError::from)?)
    }

    async fn ask(&self, command: GroupCommand) -> Result<GroupReply, GroupError> {
        Ok(self.engine.inner.ask(&self.id, &command).await.map_err(EngineError::from)?)
    }

    const fn refused(&self, why: WhyNot) -> GroupError {
        GroupError::Refused { group: self.id, why }
    }
}

/// What a reply that is not the one hoped for says. Replies of other commands cannot come.
const fn why_of(reply: &GroupReply) -> WhyNot {
    match reply {
        GroupReply::Refused(why) => *why,
        GroupReply::Made { .. } | GroupReply::Raised { .. } | GroupReply::Started { .. } | GroupReply::Done { .. } => {
            WhyNot::Absent
        }
    }
}

impl Inner {
    pub(crate) async fn ask(&self, group: &Id, command: &GroupCommand) -> Result<GroupReply, StoreError> {
        self.decide(group, |current: Option<&Group>, moment| {
            let step = apply_group(current, command, moment);
            (step.write, step.reply)
        })
        .await
    }

    pub(crate) fn fresh_nonce(&self) -> Result<Nonce, EngineError> {
        Ok(self.entropy.nonce()?)
    }
}

impl Call {
    /// Whether it is made in a turn, so that a group may refuse it.
    #[must_use]
    pub fn is_in_turn(&self) -> bool {
        self.prepared.as_ref().is_ok_and(|prepared| prepared.group().is_some())
    }

    /// Why the group of this call does not let it start; `None` where it does by now, or there is no group. For whoever
    /// was told *fenced* and has to say why.
    pub async fn why_fenced(&self) -> Result<Option<GroupError>, EngineError> {
        let prepared = self.prepared.as_ref().map_err(Clone::clone)?;
        self.engine.why_fenced(prepared).await
    }

    /// For how long whoever carries out the effect answers the same downstream key with the same effect. Within that
    /// time a started attempt whose end is unknown may be made again, whatever its class; forward the key.
    pub fn honoured(self, honoured: hapax_core::Honoured) -> Self {
        self.set(|prepared| prepared.tied(|ties| ties.honoured = Some(honoured)))
    }

    /// Makes the call a member of this turn: once a newer turn has begun it is not started any more.
    pub fn in_turn(self, turn: &Turn) -> Self {
        let foreign = self.prepared.as_ref().is_ok_and(|prepared| *prepared.scope.tenant != *turn.tenant.as_str());
        let call = if foreign { self.spoiled(EngineError::ForeignTurn) } else { self };
        call.set(|prepared| {
            prepared.epoch = Some(Epochs { caller: turn.epoch, current: turn.epoch });
            prepared.tied(|ties| ties.group = Some(turn.group));
        })
    }
}
