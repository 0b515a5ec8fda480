//! Activities: calls that a run makes outside. Claimed atomically, recorded before the executor sees the answer, given
//! again on the same identity.

mod answer;
mod provider;
mod run;
mod stream;

use std::{future::Future, sync::Arc};

use hapax_core::{
    Anchor, Effect, Honoured, Id, Millis, Nonce, Tag,
    identity::{Key, Recipe, RecipeError, Tenant, recipes::native},
};
use hapax_store::Level;
use serde::Serialize;
use tokio::sync::watch;

use crate::{
    begin::Begun,
    call::{Call, IntoTenant, Wait},
    compensate::undoable,
    engine::Engine,
    error::{EngineError, OnceError},
    group::Turn,
    ticket::Ticket,
    told::KeyKind,
};

pub use answer::{ActivityError, Answered, NoAnswer, Performed};
pub use provider::{Carrier, Provider, ProviderError, Providers};
pub use run::{EffectState, RunEffect};
pub use stream::{ActivityStream, StreamBegun, StreamClaimed, stream_broken, stream_end};

use answer::Failed;

/// The surface of activities.
pub(crate) const SURFACE: &str = "activity";

/// What a call to a provider carries, beside what it asks for.
#[derive(Clone, Debug)]
pub struct Outgoing {
    ticket: Ticket,
    key: String,
    carrier: Option<Carrier>,
}

impl Outgoing {
    /// The key that the provider is to see: the same over all attempts.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The header to set on the call that has the effect, and on no other.
    #[must_use]
    pub fn header(&self) -> Option<(&str, &str)> {
        match &self.carrier {
            Some(Carrier::Header(name)) => Some((name, &self.key)),
            Some(Carrier::Field(_)) | None => None,
        }
    }

    /// The member of the JSON body to set, by its pointer.
    #[must_use]
    pub fn field(&self) -> Option<(&str, &str)> {
        match &self.carrier {
            Some(Carrier::Field(pointer)) => Some((pointer, &self.key)),
            Some(Carrier::Header(_)) | None => None,
        }
    }

    /// Where the provider takes the key; `None` where it is not known to take any.
    #[must_use]
    pub const fn carrier(&self) -> Option<&Carrier> {
        self.carrier.as_ref()
    }

    #[must_use]
    pub const fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    #[must_use]
    pub fn into_ticket(self) -> Ticket {
        self.ticket
    }

    fn of(ticket: Ticket, provider: Option<&Provider>) -> Self {
        let mut key = ticket.downstream_key();
        if let Some(provider) = provider {
            key.truncate(provider.most);
        }
        Self { ticket, key, carrier: provider.map(|provider| provider.carrier.clone()) }
    }
}

/// What came of claiming an activity.
#[derive(Debug)]
#[must_use]
pub enum Claimed {
    /// Make the call, then record its answer: [`Answered::outcome`].
    Call(Outgoing),
    /// It was made before, or must not be made now.
    Told(Box<Begun>),
}

/// Where an activity belongs: the fallback of its identity, and the list that it stands in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place<'a> {
    pub run: &'a str,
    pub node: &'a str,
    /// The how-manieth effect of the node.
    pub ordinal: u64,
    /// Stable over retries: `stripe:create-charge`.
    pub provider: &'a str,
}

/// One activity, ready to be performed.
#[derive(Clone, Debug)]
#[must_use]
pub struct Activity {
    call: Call,
    engine: Engine,
    tenant: Result<Tenant, EngineError>,
    provider_key: String,
    provider: Option<Arc<Provider>>,
    effect: Effect,
}

impl Engine {
    /// An activity of a run. Without a business key it is known by its place.
    pub fn activity(&self, tenant: impl IntoTenant, place: &Place<'_>) -> Activity {
        let tenant = tenant.into_tenant();
        let name = tenant.as_ref().map_or("", Tenant::as_str);
        let key = native::activity(name, place.run, place.node, place.ordinal, place.provider);
        let run = run_tag(name, place.run);
        let mut activity = Activity {
            call: self.activity_call(&tenant, key),
            engine: self.clone(),
            tenant,
            provider_key: place.provider.to_owned(),
            provider: None,
            effect: Effect::default(),
        };
        // A store without the index cannot list a run's effects; all else is the same there.
        if self.inner.store.level() >= Level::Full {
            activity.call = activity.call.set(|prepared| prepared.tied(|ties| ties.run = Some(run)));
        }
        activity.providers(&Providers::built_in())
    }

    fn activity_call(&self, tenant: &Result<Tenant, EngineError>, key: Key) -> Call {
        match tenant {
            Ok(tenant) => self.surface(SURFACE).tenant(tenant).with_key(key).key_kind(KeyKind::Automatic),
            Err(error) => Call::new(self.clone(), Err(error.clone())),
        }
    }
}

fn run_tag(tenant: &str, run: &str) -> Tag {
    hapax_core::group_tag(&Id::derived("hapax.run.v1", &[tenant.as_bytes(), run.as_bytes()]))
}

impl Activity {
    /// Knows the activity by what it does for the business, wherever it is asked for: the same charge of the same order
    /// is one, whichever run or node comes to it.
    pub fn business_key(self, key: &str) -> Self {
        let fields = [("provider", self.provider_key.as_bytes()), ("key", key.as_bytes())];
        let key = native::named("activity.business", 1, &fields);
        self.keyed(key)
    }

    /// Knows the activity by a recipe that others use, for systems that hold such ids already.
    pub fn recipe(
        self,
        recipe: Recipe,
        fields: &[(&str, hapax_core::identity::Field<'_>)],
    ) -> Result<Self, RecipeError> {
        Ok(self.keyed(recipe.key(fields)?))
    }

    /// The same call under another key.
    fn keyed(mut self, key: Key) -> Self {
        let renamed = self.engine.activity_call(&self.tenant, key);
        self.call = match (self.call.prepared, renamed.prepared) {
            (Ok(old), Ok(new)) => {
                let prepared = old.named_like(new);
                Call::new(self.engine.clone(), Ok(prepared))
            }
            (Err(error), _) | (_, Err(error)) => Call::new(self.engine.clone(), Err(error)),
        };
        self
    }

    /// The providers to look this one up in.
    pub fn providers(mut self, providers: &Providers) -> Self {
        self.provider = providers.of(&self.provider_key).cloned();
        let window = self.provider.as_ref().and_then(|provider| provider.window());
        self.honoured(window)
    }

    fn honoured(mut self, window: Option<Millis>) -> Self {
        let honoured = window.map(|window| Honoured { from: Anchor::Write, window });
        self.call = self.call.set(|prepared| {
            if honoured.is_some() || prepared.ties.is_some() {
                prepared.tied(|ties| ties.honoured = honoured);
            }
        });
        self
    }

    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self.call = self.call.effect(effect);
        self
    }

    pub fn fingerprint<T: Serialize + ?Sized>(mut self, request: &T) -> Self {
        self.call = self.call.fingerprint(request);
        self
    }

    pub fn in_turn(mut self, turn: &Turn) -> Self {
        self.call = self.call.in_turn(turn);
        self
    }

    pub fn compensated_by<T: Serialize + ?Sized>(mut self, name: &str, input: &T) -> Self {
        self.effect = undoable(self.effect);
        self.call = self.call.compensated_by(name, input);
        self
    }

    pub fn lease(mut self, lease: Millis) -> Self {
        self.call = self.call.lease(lease);
        self
    }

    pub fn wait(mut self, wait: Wait) -> Self {
        self.call = self.call.wait(wait);
        self
    }

    /// As [`Call::wait_until`].
    pub fn wait_until(mut self, stop: &Arc<watch::Receiver<bool>>) -> Self {
        self.call = self.call.wait_until(stop);
        self
    }

    pub fn id(&self) -> Result<Id, EngineError> {
        self.call.id()
    }

    /// What stands for the key in logs.
    pub fn key_hash(&self) -> Result<[u8; 8], EngineError> {
        self.call.key_hash()
    }

    /// Declares what undoes it, with an input that the body of its answer holds: where this JSON pointer points, or all
    /// of it where the pointer is empty.
    pub fn compensated_from_outcome(mut self, name: &str, pointer: &str) -> Self {
        self.effect = undoable(self.effect);
        self.call = self.call.compensated_from_outcome(name, pointer);
        self
    }

    /// Who asks, within the tenant; stored beside the record.
    pub fn principal(mut self, principal: &str) -> Self {
        self.call = self.call.principal(principal);
        self
    }

    /// The call that it comes to.
    pub const fn as_call(&self) -> &Call {
        &self.call
    }

    /// The call itself, for whoever guards it in another way.
    pub fn into_call(self) -> Call {
        self.call
    }

    /// Only claims it, for whoever makes the call elsewhere. `nonce`: as for [`Call::begin_with`].
    pub async fn claim(self, nonce: Option<Nonce>) -> Result<Claimed, EngineError> {
        let provider = self.provider;
        let begun = match nonce {
            Some(nonce) => self.call.begin_with(nonce).await?,
            None => self.call.begin().await?,
        };
        Ok(match begun {
            Begun::Execute(ticket) => Claimed::Call(Outgoing::of(ticket, provider.as_deref())),
            told @ (Begun::Replay(_) | Begun::JoinedFailure(_) | Begun::Told(_)) => Claimed::Told(Box::new(told)),
        })
    }

    /// Makes the call, unless it was made before, and gives its answer either way. What the provider answered is
    /// recorded before it is returned.
    pub async fn perform<F, Fut>(self, send: F) -> Result<Performed, ActivityError>
    where
        F: FnOnce(Outgoing) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Answered, NoAnswer>> + Send + 'static,
    {
        let (provider, effect) = (self.provider, self.effect);
        let done = self
            .call
            .once(move |ticket| async move {
                let attempt = ticket.attempt();
                let outgoing = Outgoing::of(ticket, provider.as_deref());
                let answer = send(outgoing).await.map_err(Failed::None)?;
                let retryable = provider.as_ref().map_or(&[][..], |provider| &provider.retryable);
                Failed::judge(answer, effect, retryable, attempt)
            })
            .await;
        match done {
            Ok(done) => Ok(Performed {
                answer: done.value,
                replayed: done.replayed,
                joined: done.joined,
                attempt: done.attempt,
            }),
            Err(error) => failed(error),
        }
    }
}

fn failed(error: OnceError<Failed>) -> Result<Performed, ActivityError> {
    let stopped = |error| Err(ActivityError::Stopped(Box::new(error)));
    match error {
        OnceError::Failed(Failed::Answer { answer, class, attempt }) => match class {
            hapax_core::OutcomeClass::FinalFailure => Ok(Performed { answer, replayed: false, joined: false, attempt }),
            hapax_core::OutcomeClass::Unknown
            | hapax_core::OutcomeClass::NotAdmitted
            | hapax_core::OutcomeClass::Cancelled => Err(ActivityError::Unknown(answer)),
            hapax_core::OutcomeClass::Success
            | hapax_core::OutcomeClass::RetryableFailure
            | hapax_core::OutcomeClass::NotRecordable => Err(ActivityError::Retryable(answer)),
        },
        OnceError::Failed(Failed::None(none)) => Err(ActivityError::NoAnswer(none)),
        OnceError::Rejected { message, attempt, joined } => match serde_json::from_str(&message) {
            Ok(answer) => Ok(Performed { answer, replayed: true, joined, attempt }),
            // An operator has rejected it in words of their own.
            Err(_) => stopped(OnceError::Rejected { message, attempt, joined }),
        },
        OnceError::JoinedFailure { message } => match serde_json::from_str(&message) {
            Ok(answer) => Err(ActivityError::Retryable(answer)),
            Err(_) => stopped(OnceError::JoinedFailure { message }),
        },
        OnceError::Panicked(text) => stopped(OnceError::Panicked(text)),
        OnceError::InFlight { retry_after } => stopped(OnceError::InFlight { retry_after }),
        OnceError::Mismatch => stopped(OnceError::Mismatch),
        OnceError::InDoubt { id } => stopped(OnceError::InDoubt { id }),
        OnceError::Refused(refusal) => stopped(OnceError::Refused(refusal)),
        OnceError::Superseded => stopped(OnceError::Superseded),
        OnceError::NotLetStart(refused) => stopped(OnceError::NotLetStart(refused)),
        OnceError::WindowClosed { decided, rejected } => stopped(OnceError::WindowClosed { decided, rejected }),
        OnceError::AlreadyCompleted { digest, reason } => stopped(OnceError::AlreadyCompleted { digest, reason }),
        OnceError::LeaseLost => stopped(OnceError::LeaseLost),
        OnceError::NotRecorded(error) => stopped(OnceError::NotRecorded(error)),
        OnceError::Overtaken => stopped(OnceError::Overtaken),
        OnceError::Engine(error) => stopped(OnceError::Engine(error)),
    }
}
