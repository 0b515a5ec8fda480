//! Finding out what became of an operation whose end is unknown.
//!
//! A probe asks the world. It is claimed durably, so one process asks at a time, and backs off, so that a provider's
//! outage is no mass escalation. *Not applied* opens the operation only if the effect was prevented or its owner can no
//! longer act; otherwise the paused owner may still wake up and act, and the answer counts as unknown.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use hapax_core::{
    Command, Id, Millis, Outcome, OutcomeClass, Record, Reply, State, Token, Version,
    command::{Posture, Resolution, Resolve},
    identity::Surface,
    record::About,
};
use hapax_store::{BoxFuture, StoreError};
use std::collections::HashMap;

use crate::{
    engine::{Engine, Inner},
    seen::Seen,
    ticket::downstream_key,
};

/// What a probe is asked about.
#[derive(Clone, Debug)]
pub struct Doubt {
    pub id: Id,
    pub token: Token,
    pub fence: Version,
    /// The key that the attempt forwarded downstream.
    pub downstream_key: String,
    pub about: Arc<About>,
    /// How often it was asked before.
    pub probes: u32,
}

/// What a probe found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// It happened, and this is its answer.
    Applied(Outcome),
    /// It was refused for good, and this is its answer.
    Refused(Outcome),
    /// It did not happen, and cannot happen any more.
    NotApplied(Certainty),
    /// It has not happened so far. That is not enough: its owner may only be slow.
    NotAppliedYet,
    Unknown,
}

/// Why something that has not happened will not happen later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Certainty {
    /// The probe itself made it impossible: it voided or fenced the downstream key.
    Prevented,
    /// The attempt's owner is known dead, or a deadline downstream has passed.
    OwnerGone,
}

/// A user's way of asking.
pub trait Probe: Send + Sync + 'static {
    fn ask(&self, doubt: Doubt) -> BoxFuture<'_, Found>;
}

impl<F, Fut> Probe for F
where
    F: Fn(Doubt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Found> + Send + 'static,
{
    fn ask(&self, doubt: Doubt) -> BoxFuture<'_, Found> {
        Box::pin(self(doubt))
    }
}

#[derive(Clone, Default)]
pub(crate) struct Probes(HashMap<Surface, Arc<dyn Probe>>);

impl Probes {
    pub(crate) fn set(&mut self, surface: Surface, probe: Arc<dyn Probe>) {
        self.0.insert(surface, probe);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, about: &About) -> Option<Arc<dyn Probe>> {
        self.0.get(&*about.surface).cloned()
    }
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A provider that is slow to answer must not be asked about everything at once, whoever sets it off.
pub(crate) const PROBES_AT_ONCE: usize = 16;

/// What came of trying to probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probed {
    /// There is no probe for its surface, or nothing to ask.
    NotAsked,
    /// Another process asks, or its time has not come.
    Claimed,
    StillUnknown,
    Resolved,
}

impl Engine {
    /// Asks in the background, if there is anybody to ask and not too many do so already: the sweeper asks about the rest.
    /// Says by when there should be an answer; `None`: there is nobody to ask.
    pub(crate) fn probe_soon(&self, id: &Id, about: &About) -> Option<Millis> {
        self.inner.probes.of(about)?;
        if let Ok(place) = Arc::clone(&self.inner.probing).try_acquire_owned() {
            let (engine, id) = (self.clone(), *id);
            tokio::spawn(async move {
                let _asked_again_by_the_sweeper = engine.probe(&id).await;
                drop(place);
            });
        }
        Some(Millis::from_std(self.inner.settings.probe_timeout))
    }

    /// Asks what became of an operation that is in doubt, and resolves it if the answer is certain.
    pub async fn probe(&self, id: &Id) -> Result<Probed, StoreError> {
        let inner = &*self.inner;
        let seen = inner.read(id).await?;
        let Some(record) = inner.in_doubt(&seen) else { return Ok(Probed::NotAsked) };
        let Some(probe) = inner.probes.of(&record.about) else { return Ok(Probed::NotAsked) };
        let Some((doubt, version)) = inner.claim(id, seen, &record).await? else { return Ok(Probed::Claimed) };
        let found = ask(probe, doubt, inner.settings.probe_timeout).await;
        let (resolution, reason) = match found {
            // What was found says which class it is, whatever the probe's outcome was made as.
            Found::Applied(outcome) => {
                let outcome = Outcome { class: OutcomeClass::Success, ..outcome };
                (Resolution::Committed(outcome), "the probe found it applied")
            }
            Found::Refused(outcome) => {
                let outcome = Outcome { class: OutcomeClass::FinalFailure, ..outcome };
                (Resolution::Rejected(outcome), "the probe found it refused")
            }
            Found::NotApplied(Certainty::Prevented) => (Resolution::Open(Posture::Prevented), "the probe prevented it"),
            Found::NotApplied(Certainty::OwnerGone) => {
                (Resolution::Open(Posture::OwnerGone), "not applied, and its owner can no longer act")
            }
            Found::NotAppliedYet | Found::Unknown => return Ok(Probed::StillUnknown),
        };
        let resolve = Resolve { version, resolution, actor: "probe".into(), reason: reason.into() };
        match self.resolve(id, resolve).await {
            Ok(stepped) if stepped.is_done() => Ok(Probed::Resolved),
            Ok(_) => Ok(Probed::Claimed),
            Err(crate::EngineError::Store(error)) => Err(error),
            Err(_) => Ok(Probed::StillUnknown),
        }
    }
}

impl Inner {
    /// Makes this process the one that asks, for as long as the back-off says.
    async fn claim(&self, id: &Id, seen: Seen, record: &Record) -> Result<Option<(Doubt, Version)>, StoreError> {
        let State::InDoubt(doubt) = &record.state else { return Ok(None) };
        let probes = doubt.probes;
        let wait = backoff(self.settings.probe_first, self.settings.probe_longest, probes);
        let asking = self.settings.probe_timeout.max(wait);
        let next_at = self.now(&seen).plus(Millis::from_std(asking));
        let policy = self.policy_of(&record.about);
        let command = Command::ClaimProbe { version: seen.version, next_at };
        let carried = self.carry(&policy, id, seen, &record.about, &command).await?;
        if !matches!(carried.reply, Reply::Done(_)) {
            return Ok(None);
        }
        let fence = record.attempt.fence.resolve(carried.seen.version);
        let doubt = Doubt {
            id: *id,
            token: record.token(),
            fence,
            downstream_key: downstream_key(id),
            about: Arc::clone(&record.about),
            probes,
        };
        Ok(Some((doubt, carried.seen.version)))
    }
}

/// A probe that takes too long, or panics, has said nothing.
async fn ask(probe: Arc<dyn Probe>, doubt: Doubt, most: Duration) -> Found {
    let mut asking = tokio::task::JoinSet::new();
    asking.spawn(async move { probe.ask(doubt).await });
    // Dropping the set stops what is still asking.
    match tokio::time::timeout(most, asking.join_next()).await {
        Ok(Some(Ok(found))) => found,
        Ok(Some(Err(_)) | None) | Err(_) => Found::Unknown,
    }
}

impl Inner {
    /// The record as it reads now, if its end is unknown.
    fn in_doubt(&self, seen: &Seen) -> Option<Record> {
        let read = hapax_core::as_read(seen.record.as_deref()?, self.now(seen))?.into_owned();
        matches!(read.state, State::InDoubt(_)).then_some(read)
    }
}

fn backoff(first: Duration, longest: Duration, probes: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(probes.min(20))).min(longest)
}
