//! Job submission (AD-40): a client numbers its submissions, the gate answers duplicates from memory, the ledger decides.
//!
//! Duplicates of a running submission wait for it; accepted and rejected answers are given again for their own times;
//! the oldest decided ones make room when there are too many. Who restarts, client or server, changes nothing: a client's
//! numbers never repeat, and the ledger remembers.

use std::{fmt, future::Future};

use hapax_core::{
    Effect,
    identity::{
        Tenant,
        recipes::ad40::{ClientKey, ClientKeyError},
    },
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    call::{Call, IntoTenant},
    classify::Classify,
    engine::Engine,
    error::{EngineError, OnceError},
    once::OnceDone,
    ticket::Ticket,
};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError<E> {
    #[error("{0} [HX0001]")]
    Key(#[from] ClientKeyError),
    #[error(transparent)]
    Submission(#[from] OnceError<E>),
}

/// Where the jobs of one tenant are submitted.
#[derive(Clone, Debug)]
pub struct Jobs {
    engine: Engine,
    tenant: Tenant,
}

impl Engine {
    /// The jobs of a tenant, on the surface `job`.
    pub fn jobs(&self, tenant: impl IntoTenant) -> Result<Jobs, EngineError> {
        Ok(Jobs { engine: self.clone(), tenant: tenant.into_tenant()? })
    }
}

impl Jobs {
    /// Submits a job under the key that its client gave it, `client:sequence:nonce`. Accepting it is the effect.
    pub async fn submit<J, T, E, F, Fut>(&self, key: &str, job: &J, accept: F) -> Result<OnceDone<T>, JobError<E>>
    where
        J: Serialize + ?Sized,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Classify + fmt::Display + Send + 'static,
        F: FnOnce(Ticket) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        Ok(self.call(key)?.fingerprint(job).once(accept).await?)
    }

    /// The call of a submission, for whoever begins it here and completes it elsewhere.
    pub fn call(&self, key: &str) -> Result<Call, ClientKeyError> {
        let key = ClientKey::parse(key)?;
        Ok(self.engine.surface("job").tenant(&self.tenant).key(key).effect(Effect::Unsafe))
    }
}
