//! The single steps: what the owner of an attempt says about it.
//!
//! An operation that was begun in one process can be ended in another: the token is all it takes.

use std::sync::Arc;

use hapax_core::{
    Command, Id, Millis, Outcome, Policy, Reply, Token, Version,
    command::{Conflict, Done, Refused, Release},
    ending,
    record::About,
};
use tokio::time::Instant;

use crate::{
    carry::Carried,
    engine::{Engine, Inner},
    error::EngineError,
    seen::Seen,
    ticket::Ticket,
};

/// The answer to a step.
#[derive(Clone, Debug)]
#[must_use]
pub enum Stepped {
    Done(Done),
    /// The token no longer counts. An outcome that came with it is kept as evidence.
    Fenced,
    Conflict(Conflict),
    Refused(Refused),
}

impl Stepped {
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// It was given back for not having started, and somebody with the same token had started it meanwhile: then its end
    /// is said in another way. What has started stays so, so that happens once.
    const fn found_it_started(&self) -> bool {
        matches!(self, Self::Refused(Refused::AlreadyStarted))
    }

    pub(crate) fn of(reply: Reply) -> Self {
        match reply {
            Reply::Done(done) => Self::Done(done),
            // No step is answered by a verdict.
            Reply::Fenced | Reply::Verdict(_) => Self::Fenced,
            Reply::Conflict(conflict) => Self::Conflict(conflict),
            Reply::Refused(refused) => Self::Refused(refused),
        }
    }
}

impl Engine {
    pub async fn start(&self, id: &Id, token: Token) -> Result<Stepped, EngineError> {
        let seen = self.inner.read(id).await?;
        let (policy, about) = (self.inner.policy_for(&seen), seen.about());
        let carried = self.inner.carry(&policy, id, seen, &about, &Command::Start { token }).await;
        let Carried { reply, seen, .. } = carried.map_err(hapax_store::StoreError::from)?;
        self.inner.start_in_group(&policy, id, token, Stepped::of(reply), seen).await
    }

    pub async fn renew(&self, id: &Id, token: Token, lease: Millis) -> Result<Stepped, EngineError> {
        let lease = lease.max(self.inner.shortest_lease());
        self.step(id, Command::Renew { token, lease }).await
    }

    pub async fn complete(&self, id: &Id, token: Token, outcome: Outcome) -> Result<Stepped, EngineError> {
        let seen = self.inner.read(id).await?;
        if seen.is_other {
            return Ok(Stepped::Fenced);
        }
        let outcome = self.inner.laid_out(&self.inner.policy_for(&seen), id, token, outcome).await?;
        self.step_from(id, seen, Command::Complete { token, outcome }).await
    }

    pub async fn reject(&self, id: &Id, token: Token, outcome: Outcome) -> Result<Stepped, EngineError> {
        let seen = self.inner.read(id).await?;
        if seen.is_other {
            return Ok(Stepped::Fenced);
        }
        let outcome = self.inner.laid_out(&self.inner.policy_for(&seen), id, token, outcome).await?;
        self.step_from(id, seen, Command::Reject { token, outcome }).await
    }

    pub async fn fail(&self, id: &Id, token: Token, outcome: Outcome) -> Result<Stepped, EngineError> {
        let seen = self.inner.read(id).await?;
        if seen.is_other {
            return Ok(Stepped::Fenced);
        }
        let outcome = self.inner.laid_out_failure(&self.inner.policy_for(&seen), id, token, outcome).await?;
        self.step_from(id, seen, Command::Fail { token, outcome }).await
    }

    pub async fn release(&self, id: &Id, token: Token, why: Release) -> Result<Stepped, EngineError> {
        self.step(id, Command::Release { token, why }).await
    }

    /// Says how an attempt ended, in the way the policy wants an outcome of its class to be said.
    pub async fn finish(&self, id: &Id, token: Token, outcome: Outcome) -> Result<Stepped, EngineError> {
        let seen = self.inner.read(id).await?;
        let policy = self.inner.policy_for(&seen);
        self.finish_from(&policy, id, seen, token, outcome).await
    }

    /// As [`Engine::finish`], under a policy that is not its surface's alone.
    pub(crate) async fn finish_under(
        &self,
        policy: &Policy,
        id: &Id,
        token: Token,
        outcome: Outcome,
    ) -> Result<Stepped, EngineError> {
        let seen = self.inner.read(id).await?;
        self.finish_from(policy, id, seen, token, outcome).await
    }

    async fn finish_from(
        &self,
        policy: &Policy,
        id: &Id,
        mut seen: Seen,
        token: Token,
        outcome: Outcome,
    ) -> Result<Stepped, EngineError> {
        // For what is no operation nothing is laid out either: nobody would ever look for the body.
        if seen.is_other {
            return Ok(Stepped::Fenced);
        }
        let about = seen.about();
        loop {
            let said = ending(policy, seen.record.as_deref(), token, &outcome);
            let said = self.inner.laid_out_ending(policy, id, said).await?;
            let carried =
                self.inner.carry(policy, id, seen, &about, &said).await.map_err(hapax_store::StoreError::from)?;
            let stepped = Stepped::of(carried.reply);
            if !stepped.found_it_started() {
                return Ok(stepped);
            }
            seen = carried.seen;
        }
    }

    async fn step(&self, id: &Id, command: Command) -> Result<Stepped, EngineError> {
        let seen = self.inner.read(id).await?;
        self.step_from(id, seen, command).await
    }

    async fn step_from(&self, id: &Id, seen: Seen, command: Command) -> Result<Stepped, EngineError> {
        let policy = self.inner.policy_for(&seen);
        self.step_under(&policy, id, seen, command).await
    }

    async fn step_under(&self, policy: &Policy, id: &Id, seen: Seen, command: Command) -> Result<Stepped, EngineError> {
        let about = seen.about();
        let carried =
            self.inner.carry(policy, id, seen, &about, &command).await.map_err(hapax_store::StoreError::from)?;
        Ok(Stepped::of(carried.reply))
    }
}

impl Ticket {
    /// Marks the effect as under way. Fenced: it must not be started, and the ticket is best released.
    pub async fn start(&self, engine: &Engine) -> Result<Stepped, EngineError> {
        let stepped = self.carry(&engine.inner, &Command::Start { token: self.token }).await?;
        let seen = self.held.seen.lock().clone();
        engine.inner.start_in_group(&self.policy, &self.id, self.token, stepped, seen).await
    }

    /// Extends the lease by its own length from now.
    pub async fn renew(&self, engine: &Engine) -> Result<Stepped, EngineError> {
        let sent = Instant::now();
        let stepped = self.carry(&engine.inner, &Command::Renew { token: self.token, lease: self.lease }).await?;
        if stepped.is_done() {
            *self.held.deadline.lock() = sent + self.lease.as_std();
        }
        Ok(stepped)
    }

    pub async fn complete(&self, engine: &Engine, outcome: Outcome) -> Result<Stepped, EngineError> {
        let outcome = self.laid_out(&engine.inner, outcome).await?;
        self.carry(&engine.inner, &Command::Complete { token: self.token, outcome }).await
    }

    pub async fn reject(&self, engine: &Engine, outcome: Outcome) -> Result<Stepped, EngineError> {
        let outcome = self.laid_out(&engine.inner, outcome).await?;
        self.carry(&engine.inner, &Command::Reject { token: self.token, outcome }).await
    }

    pub async fn fail(&self, engine: &Engine, outcome: Outcome) -> Result<Stepped, EngineError> {
        let outcome = engine.inner.laid_out_failure(&self.policy, &self.id, self.token, outcome).await?;
        self.carry(&engine.inner, &Command::Fail { token: self.token, outcome }).await
    }

    pub async fn release(&self, engine: &Engine, why: Release) -> Result<Stepped, EngineError> {
        self.carry(&engine.inner, &Command::Release { token: self.token, why }).await
    }

    /// As [`Engine::finish`], without reading first: one swap against the version this ticket holds.
    pub async fn finish(&self, engine: &Engine, outcome: Outcome) -> Result<Stepped, EngineError> {
        self.finish_as(engine, &outcome).await
    }

    /// The outcome is lent: whoever has to offer it again keeps it.
    pub(crate) async fn finish_as(&self, engine: &Engine, outcome: &Outcome) -> Result<Stepped, EngineError> {
        loop {
            let said = ending(&self.policy, self.held.seen.lock().record.as_deref(), self.token, outcome);
            let said = engine.inner.laid_out_ending(&self.policy, &self.id, said).await?;
            let stepped = self.carry(&engine.inner, &said).await?;
            if !stepped.found_it_started() {
                return Ok(stepped);
            }
        }
    }

    async fn laid_out(&self, inner: &Inner, outcome: Outcome) -> Result<Outcome, EngineError> {
        inner.laid_out(&self.policy, &self.id, self.token, outcome).await
    }

    async fn carry(&self, inner: &Inner, command: &Command) -> Result<Stepped, EngineError> {
        let mut seen = self.held.seen.lock().clone();
        seen.fresh = false;
        let ends = match command {
            Command::Complete { .. } | Command::Reject { .. } | Command::Fail { .. } | Command::Release { .. } => true,
            Command::Begin(_)
            | Command::Start { .. }
            | Command::Renew { .. }
            | Command::Unstart { .. }
            | Command::Disown { .. }
            | Command::Resolve(_)
            | Command::ClaimProbe { .. }
            | Command::Expire
            | Command::LetGo
            | Command::Evict { .. } => false,
        };
        let Carried { reply, seen, unsettled: _ } = inner
            .carry(&self.policy, &self.id, seen, &self.about, command)
            .await
            .map_err(hapax_store::StoreError::from)?;
        if ends && matches!(reply, Reply::Done(_) | Reply::Fenced) {
            drop(self.held.running.lock().take());
        }
        let mut held = self.held.seen.lock();
        // A renewal and the end may cross; the later version is the one to hold.
        if held.version < seen.version {
            *held = seen;
        }
        Ok(Stepped::of(reply))
    }
}

impl Inner {
    pub(crate) fn policy_for(&self, seen: &Seen) -> Arc<Policy> {
        self.policy_of(&seen.about())
    }
}

impl Seen {
    /// Whose record this is; nobody's where there is none.
    pub(crate) fn about(&self) -> Arc<About> {
        self.record.as_ref().map_or_else(nobody, |record| Arc::clone(&record.about))
    }
}

/// What events are told about an operation of which nothing is known.
fn nobody() -> Arc<About> {
    Arc::new(About {
        surface: "".into(),
        tenant: "".into(),
        surface_tag: hapax_core::Tag([0; 16]),
        tenant_tag: hapax_core::Tag([0; 16]),
        principal: None,
        key_hash: [0; 8],
    })
}

impl Engine {
    /// The version that a resolution has to name, with the record it is about.
    pub async fn version(&self, id: &Id) -> Result<Version, EngineError> {
        Ok(self.inner.read(id).await?.version)
    }
}
