//! A begin that is carried out by somebody else: in a transaction of the caller's own.

use std::sync::Arc;

use hapax_core::{Id, Policy, command::Begin};

use crate::{Call, EngineError, quota::Room};

/// What the rules need to judge a begin.
#[derive(Clone, Debug)]
pub struct Within {
    pub policy: Arc<Policy>,
    pub id: Id,
    pub begin: Begin,
}

impl Call {
    /// This call as a command, for a store that writes its record in the caller's own transaction. It has a nonce of its
    /// own, so each transaction asks anew. What the engine adds to a begin, waiting, gate, groups and shadow mode, is left
    /// out.
    pub async fn within(&self) -> Result<Within, EngineError> {
        let prepared = self.prepared.as_ref().map_err(Clone::clone)?;
        let inner = &*self.engine.inner;
        let nonce = inner.entropy.nonce()?;
        // The database counts it from its commit on, and a transaction that is rolled back never took a place.
        let (begin, _running, _place) = inner.admitted(prepared, nonce, Room::AsItIs).await?;
        // What it will write goes past this engine. It is taken to be as much as may be kept.
        inner.quotas.wrote(Some((prepared.scope.tenant_tag, prepared.policy.capture.max_body)));
        Ok(Within { policy: Arc::clone(&prepared.policy), id: prepared.id, begin })
    }
}
