//! An operator, a probe or a retry gate decides what nobody else can.

use std::sync::Arc;

use hapax_core::{
    Command, Id, Reply,
    command::{Conflict, Done, Resolution, Resolve},
    record::End,
};

use crate::{engine::Engine, error::EngineError, steps::Stepped};

impl Engine {
    /// Ends a doubt. The version guards it: whoever decided on an older state is told that it has moved.
    pub async fn resolve(&self, id: &Id, mut resolve: Resolve) -> Result<Stepped, EngineError> {
        let inner = &*self.inner;
        let seen = inner.read(id).await?;
        let Some(record) = &seen.record else { return Err(EngineError::NotFound(*id)) };
        let (policy, about) = (inner.policy_for(&seen), seen.about());
        resolve.resolution = match resolve.resolution {
            Resolution::Committed(outcome) => {
                Resolution::Committed(inner.laid_out(&policy, id, record.token(), outcome).await?)
            }
            Resolution::Rejected(outcome) => {
                Resolution::Rejected(inner.laid_out(&policy, id, record.token(), outcome).await?)
            }
            Resolution::Open(posture) => Resolution::Open(posture),
        };
        let (actor, reason) = (Arc::clone(&resolve.actor), Arc::clone(&resolve.reason));
        let command = Command::Resolve(resolve);
        let carried = inner
            .carry_as(&policy, id, seen, &about, &command, Some(Arc::clone(&actor)))
            .await
            .map_err(hapax_store::StoreError::from)?;
        // A write of unknown fate that did land moved the version itself: it is recognised by who wrote it, and why.
        let ours = carried.unsettled.is_some()
            && matches!(carried.reply, Reply::Conflict(Conflict::VersionMoved { .. }))
            && carried
                .seen
                .record
                .as_ref()
                // An earlier attempt may have been resolved in the same words.
                .filter(|record| record.attempt.end == End::Resolved)
                .and_then(|record| record.resolved.as_ref())
                .is_some_and(|resolved| resolved.actor == actor && resolved.reason == reason);
        Ok(if ours { Stepped::Done(Done { already: true, late: false }) } else { Stepped::of(carried.reply) })
    }
}
