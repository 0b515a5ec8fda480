//! Closing a group: nothing starts any more, its members are let go, then it is kept as long as they are.

use hapax_core::{
    Command, Id, Millis, Span, Stamp, State, Window, as_read,
    group::{GroupCommand, GroupReply},
    kept_for,
    plan::{Plan, PlanCommand, apply_plan},
    windows,
};
use hapax_store::StoreError;

use super::{GroupHandle, why_of};
use crate::{compensate::plan_id, engine::Inner, error::EngineError, group::GroupError};

/// What a closed group is kept beyond its members: long enough for whoever is still at it to be told.
const BEYOND: Millis = Millis::from_hours(24);

impl GroupHandle {
    /// Closes the group: nothing starts in it any more, and what was kept only so that it could be undone is let go.
    pub async fn close(&self) -> Result<(), GroupError> {
        match self.ask(GroupCommand::Close).await? {
            GroupReply::Done { .. } => {}
            reply @ (GroupReply::Made { .. }
            | GroupReply::Raised { .. }
            | GroupReply::Started { .. }
            | GroupReply::Refused(_)) => return Err(self.refused(why_of(&reply))),
        }
        Ok(self.engine.inner.finish_closing(&self.id).await.map_err(EngineError::from)?)
    }
}

impl Inner {
    /// Lets all members go, then says how long the group is kept. Cut short it is taken up again, by whoever closes the
    /// group again or by the sweeper.
    pub(crate) async fn finish_closing(&self, group: &Id) -> Result<(), StoreError> {
        let mut longest = Span::For(Millis::ZERO);
        for member in self.members(group).await? {
            let Some(seen) = self.operation(&member).await? else { continue };
            let (policy, about) = (self.policy_for(&seen), seen.about());
            let carried = self.carry(&policy, &member, seen, &about, &Command::LetGo).await?;
            longest = longer(longest, self.left_of(&carried.seen));
        }
        let keep = longest.then(Span::For(BEYOND));
        let settle = PlanCommand::Settle { keep };
        self.decide(&plan_id(group), |plan: Option<&Plan>, moment| (apply_plan(plan, &settle, moment).write, ()))
            .await?;
        let _settled = self.ask(group, &GroupCommand::Settle { keep }).await?;
        Ok(())
    }

    /// How long a member is still kept. One that is under way has all of its time before it.
    fn left_of(&self, seen: &crate::seen::Seen) -> Span {
        let now = self.now(seen);
        let Some(record) = seen.record.as_deref().and_then(|record| as_read(record, now)) else {
            return Span::For(Millis::ZERO);
        };
        match &record.state {
            State::Pending(_) | State::InDoubt(_) => {
                kept_for(&record, self.policy_of(&record.about).success_retention())
            }
            State::Open(_) | State::Tombstone(_) | State::Committed(_) | State::Rejected(_) => {
                left_until(windows(&record).kept.and_then(Window::end), now)
            }
        }
    }
}

fn left_until(end: Option<Stamp>, now: Stamp) -> Span {
    end.map_or(Span::Forever, |end| Span::For(end.since(now)))
}

const fn longer(left: Span, right: Span) -> Span {
    match (left, right) {
        (Span::Forever, _) | (_, Span::Forever) => Span::Forever,
        (Span::For(a), Span::For(b)) => Span::For(if a.0 > b.0 { a } else { b }),
    }
}
