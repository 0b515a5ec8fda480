//! Supersede: raise the epoch, then look at the members.

use std::collections::HashSet;

use hapax_core::{
    Effect, Id, Nonce, as_read,
    group::{GroupCommand, GroupReply, Started, is_listed, started_before},
    group_tag,
};
use hapax_store::{Index, StoreError};

use super::{GroupHandle, Progress, Turn, why_of};
use crate::{engine::Inner, error::EngineError, group::GroupError};

/// A member of an older turn that may have started its effect. It is not stopped: it can be followed to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reported {
    pub member: Id,
    pub effect: Effect,
    /// The epoch it was started in. Where a newer turn has taken up what is not listed: the one before that.
    pub epoch: u64,
    /// How far it had come when it was looked at.
    pub progress: Progress,
}

/// A newer turn, and what the older ones had started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superseded {
    pub turn: Turn,
    /// The same supersede had been said before.
    pub already: bool,
    /// Whatever is not among these was refused before its effect, or will be.
    pub started: Vec<Reported>,
}

impl GroupHandle {
    /// SUPERSEDE: keeps the group, raises its epoch and reports what had started before.
    pub async fn supersede(&self) -> Result<Superseded, GroupError> {
        let nonce = self.engine.inner.fresh_nonce()?;
        self.supersede_with(nonce).await
    }

    /// As [`GroupHandle::supersede`], with a nonce that the caller brings: repeated after a lost answer it raises the
    /// epoch once.
    pub async fn supersede_with(&self, nonce: Nonce) -> Result<Superseded, GroupError> {
        let (epoch, already, listed) = match self.ask(GroupCommand::Inherit { nonce }).await? {
            GroupReply::Raised { epoch, already, started } => (epoch, already, started),
            reply @ (GroupReply::Made { .. }
            | GroupReply::Started { .. }
            | GroupReply::Done { .. }
            | GroupReply::Refused(_)) => return Err(self.refused(why_of(&reply))),
        };
        let inner = &self.engine.inner;
        let started = inner.started_before(&self.id, epoch, &listed).await.map_err(EngineError::from)?;
        Ok(Superseded { turn: self.turn(epoch), already, started })
    }
}

impl Inner {
    /// What had started before this epoch: the listed ones as the group's record had them when it was swapped, the
    /// others as they are found now.
    async fn started_before(&self, group: &Id, epoch: u64, listed: &[Started]) -> Result<Vec<Reported>, StoreError> {
        let mut reported = Vec::new();
        for start in listed {
            reported.push(Reported {
                member: start.member,
                effect: start.effect,
                epoch: start.epoch,
                progress: self.progress(&start.member).await?,
            });
        }
        let known: HashSet<Id> = listed.iter().map(|start| start.member).collect();
        for member in self.members(group).await? {
            if known.contains(&member) {
                continue;
            }
            let Some(seen) = self.operation(&member).await? else { continue };
            let now = self.now(&seen);
            let Some(record) = seen.record.as_deref().and_then(|record| as_read(record, now)) else { continue };
            // What has to be listed and is not was refused, or will be when it asks.
            if is_listed(record.effect) {
                continue;
            }
            if let Some(begun_in) = started_before(&record, epoch) {
                let progress = Progress::of(&record);
                reported.push(Reported { member, effect: record.effect, epoch: begun_in, progress });
            }
        }
        Ok(reported)
    }

    /// Every operation that the store lists with this group.
    pub(crate) async fn members(&self, group: &Id) -> Result<Vec<Id>, StoreError> {
        self.listed_under(group_tag(group)).await
    }

    pub(crate) async fn listed_under(&self, tag: hapax_core::Tag) -> Result<Vec<Id>, StoreError> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let scan = self.store.scan(Index::Group(tag), after.as_ref(), self.settings.sweep_slice);
            let page = self.in_time("scan", scan).await?;
            found.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }
}
