//! What a run has done outside.

use hapax_core::{Effect, Id, State, WallMillis, as_read};
use hapax_store::Level;

use super::run_tag;
use crate::{call::IntoTenant, engine::Engine, group::GroupError};

/// How one effect of a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EffectState {
    /// Under way, or about to be.
    Claimed,
    /// It has a final answer.
    Completed,
    /// Its attempt ended without one, and it may be run again.
    Released,
    /// It may have happened, and nobody has its answer.
    Escaped,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunEffect {
    pub id: Id,
    pub state: EffectState,
    pub effect: Effect,
    pub attempt: u32,
    pub begun: WallMillis,
}

impl Engine {
    /// The effects of a run, the oldest first. What was given back before anything happened leaves nothing to list.
    pub async fn effects_of_run(&self, tenant: impl IntoTenant, run: &str) -> Result<Vec<RunEffect>, GroupError> {
        let tenant = tenant.into_tenant()?;
        if self.inner.store.level() < Level::Full {
            return Err(GroupError::Level { store: self.inner.store_name.clone() });
        }
        let mut effects = Vec::new();
        let listed = self.inner.listed_under(run_tag(tenant.as_str(), run)).await;
        for id in listed.map_err(crate::EngineError::from)? {
            let Some(seen) = self.inner.operation(&id).await.map_err(crate::EngineError::from)? else { continue };
            let now = self.inner.now(&seen);
            let Some(record) = seen.record.as_deref().and_then(|record| as_read(record, now)) else { continue };
            let state = match &record.state {
                State::Pending(_) => EffectState::Claimed,
                State::Open(_) => EffectState::Released,
                State::InDoubt(_) => EffectState::Escaped,
                State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => EffectState::Completed,
            };
            let (attempt, begun) = (record.attempt.number, record.attempt.begun_wall);
            effects.push(RunEffect { id, state, effect: record.effect, attempt, begun });
        }
        effects.sort_by_key(|effect| (effect.begun, effect.id));
        Ok(effects)
    }
}
