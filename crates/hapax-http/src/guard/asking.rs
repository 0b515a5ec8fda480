use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{
    Anchor, Fingerprint, Honoured, Id, Millis, Verdict,
    identity::{Key, RequestPrint, Scheme},
};
use hapax_engine::{
    Begun, Call, Carrier, Decision, EngineError, KeyKind, Place, Provider, Providers, Replayed, Ticket, Unprotected,
    Wait,
};
use http::{HeaderName, request};

use super::{Answer, Guard, running::Running};
use crate::{
    caller::{ActivityOf, Caller},
    resolved::Resolved,
    rules::{May, Replaying},
};

/// A protected request that was not begun yet.
#[derive(Debug)]
pub struct Asking {
    guard: Guard,
    resolved: Arc<Resolved>,
    call: Call,
    operation: Id,
    body: Bytes,
    principal: Option<Arc<str>>,
    activity: bool,
    /// The answer, where it was found before the whole print was taken. Such a question is answered, never begun.
    at_hand: Option<Replayed>,
    /// Why a look told nothing. Pure work may go on without a record, and then this is all there is to say of the store.
    unseen: Option<EngineError>,
}

/// How a request is known.
pub(super) enum Named {
    Given(Key),
    /// By what it asks for.
    ByItself(Fingerprint),
}

/// What a look says.
#[derive(Debug)]
#[must_use]
pub enum Peek {
    /// The answer, without an upstream and without a write.
    Answer(Answer),
    /// Nothing stands in the way as far as can be seen: begin.
    Begin,
}

/// What a begin comes to.
#[derive(Debug)]
#[must_use]
pub enum Begin {
    /// It is ours to run, and to end.
    Run(Running),
    /// Run it; nothing is recorded of it. In shadow mode, or because the store is gone and the work is pure.
    Unprotected {
        ticket: Ticket,
        why: Unprotected,
    },
    Answer(Answer),
}

impl Asking {
    #[allow(clippy::too_many_arguments, reason = "the parts of one request, gathered in one place")]
    pub(super) fn new(
        guard: &Guard,
        resolved: &Arc<Resolved>,
        head: &request::Parts,
        body: &Bytes,
        caller: &Caller,
        named: Named,
        request: &RequestPrint<'_>,
    ) -> Result<Self, EngineError> {
        let rules = &guard.inner.rules;
        let (key, kind, print) = match named {
            Named::Given(key) => (key, KeyKind::Given, None),
            Named::ByItself(print) => (Key::automatic(&print), KeyKind::Automatic, Some(print)),
        };
        let mut call = match &caller.activity {
            // An activity is judged by the policy of its own surface.
            Some(activity) => activity_call(guard, caller, activity),
            None => {
                let mut scope = guard.inner.engine.on(&rules.surface).tenant(&caller.tenant);
                if resolved.per_endpoint {
                    let endpoint = caller.endpoint.as_deref().unwrap_or_else(|| head.uri.path());
                    scope = scope.within("endpoint", &scope_part(head.method.as_str(), endpoint));
                }
                if let Some(principal) = caller.principal.as_deref().filter(|_| rules.per_principal) {
                    scope = scope.within("principal", &scope_part("", principal));
                }
                scope.with_key_under(key, &resolved.judging).key_kind(kind)
            }
        };
        call = call.effect(rules.effect);
        if let Some(window) = rules.provider.as_deref().and_then(window) {
            call = call.honoured(Honoured { from: Anchor::Write, window });
        }
        if let Some(principal) = &caller.principal {
            call = call.principal(principal);
        }
        // Mostly a duplicate is the same bytes again. Then its answer is at hand, and the canonical form is not needed.
        let printer = guard.inner.engine.printer();
        let mut as_sent = None;
        let recognised = |known: &[Scheme]| {
            as_sent = request.as_sent(known, printer);
            as_sent.clone()
        };
        let at_hand = if print.is_none() { call.at_hand(recognised) } else { None };
        if at_hand.is_none() {
            call = call.fingerprinted(print.unwrap_or_else(|| request.whole(as_sent, printer)));
        }
        let operation = call.id()?;
        Ok(Self {
            guard: guard.clone(),
            resolved: Arc::clone(resolved),
            call,
            operation,
            body: body.clone(),
            principal: caller.principal.clone(),
            activity: caller.activity.is_some(),
            at_hand,
            unseen: None,
        })
    }

    /// The name under which the request is recorded.
    #[must_use]
    pub const fn operation(&self) -> Id {
        self.operation
    }

    /// Whether it is only watched, and recorded where nothing is decided.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.call.is_shadow()
    }

    /// The body to run with, after server-side overrides.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The headers that may carry the key, where the policy says that it is not passed on.
    #[must_use]
    pub fn withheld(&self) -> Vec<HeaderName> {
        if self.resolved.policy.forward_key { Vec::new() } else { self.resolved.key_headers().cloned().collect() }
    }

    /// Answers what is decided, under way or in doubt, from memory or by one read. It waits for an attempt under way as
    /// long as the policy says, and writes nothing.
    pub async fn peek(&mut self, head: &request::Parts) -> Peek {
        if let Some(replayed) = self.at_hand.take() {
            return Peek::Answer(self.told(head, Begun::Replay(replayed)).await);
        }
        match self.call.peek().await {
            Ok(Some(begun)) => Peek::Answer(self.told(head, begun).await),
            Ok(None) => Peek::Begin,
            // A store that does not answer is the begin's affair: it knows what the policy says of that.
            Err(error) => {
                self.unseen = Some(error);
                Peek::Begin
            }
        }
    }

    /// Whether a begin would run it, as far as a look can tell: nothing is decided, under way or in doubt. It waits for nobody.
    pub async fn is_free(&self) -> bool {
        self.at_hand.is_none() && matches!(self.call.clone().wait(Wait::No).peek().await, Ok(None))
    }

    /// As [`Asking::peek`] for somebody who must not see the answer: it waits for nobody, and of what was done it says only that it
    /// was. Another request under the same key is not this one, and nothing is said of it.
    pub async fn peek_unseen(&mut self, head: &request::Parts) -> Peek {
        let begun = match self.at_hand.take() {
            Some(replayed) => Ok(Some(Begun::Replay(replayed))),
            None => self.call.clone().wait(Wait::No).peek().await,
        };
        match begun {
            Ok(Some(Begun::Told(Verdict::Mismatch)) | None) => Peek::Begin,
            Ok(Some(Begun::Replay(_) | Begun::JoinedFailure(_))) => {
                Peek::Answer(self.guard.done_unseen(self.operation))
            }
            Ok(Some(begun)) => Peek::Answer(self.told(head, begun).await),
            Err(error) => Peek::Answer(self.guard.unavailable(&error, Some(self.operation))),
        }
    }

    /// Whether nothing is recorded under its key, so that no effect can have happened: for whoever could not even begin.
    pub async fn is_unused(&self) -> bool {
        self.call.is_unused().await
    }

    /// As [`Asking::begin`], but it waits for nobody. The question comes back where an attempt is under way: whoever holds
    /// something that others need lets go of it, and has [`Asking::peek`] wait.
    pub async fn begin_at_once(mut self: Box<Self>, head: &request::Parts) -> Result<Begin, Box<Self>> {
        if let Some(replayed) = self.at_hand.take() {
            return Ok(Begin::Answer(self.told(head, Begun::Replay(replayed)).await));
        }
        let patience = self.call.wait_meanwhile(Wait::No);
        let decided = self.call.decide().await;
        self.call.wait_meanwhile(patience);
        match decided {
            Ok(Decision::Told(Begun::Told(Verdict::InFlight { .. }))) => Err(self),
            decided => Ok(self.begun(head, decided).await),
        }
    }

    /// Asks for the right to run it: the first durable write.
    pub async fn begin(mut self, head: &request::Parts) -> Begin {
        if let Some(replayed) = self.at_hand.take() {
            return Begin::Answer(self.told(head, Begun::Replay(replayed)).await);
        }
        let decided = self.call.decide().await;
        self.begun(head, decided).await
    }

    async fn begun(self, head: &request::Parts, decided: Result<Decision, EngineError>) -> Begin {
        match decided {
            Ok(Decision::Execute(ticket)) => Begin::Run(Running::new(self.guard, self.resolved, ticket, self.activity)),
            Ok(Decision::Unprotected { ticket, why }) => {
                if let (Unprotected::StoreGone, Some(error)) = (why, &self.unseen) {
                    self.guard.trouble(error);
                }
                Begin::Unprotected { ticket, why }
            }
            Ok(Decision::Told(begun)) => Begin::Answer(self.told(head, begun).await),
            Err(error) => Begin::Answer(self.guard.unavailable(&error, Some(self.operation))),
        }
    }

    async fn told(&self, head: &request::Parts, begun: Begun) -> Answer {
        // Whether it runs, failed or was never recorded is nobody's secret within a tenant; an answer may be.
        let may = match &begun {
            Begun::Replay(replayed) => self.may_see(head, replayed.replay.asked_first.as_deref()).await,
            Begun::JoinedFailure(_) => match self.guard.inner.engine.asked_first(&self.operation).await {
                Ok(asked_first) => self.may_see(head, asked_first.flatten().as_deref()).await,
                // Without knowing whose answer it is, nobody gets it.
                Err(error) => {
                    self.guard.trouble(&error);
                    May::Unknown
                }
            },
            Begun::Execute(_) | Begun::Told(_) => May::Yes,
        };
        match may {
            May::Yes => self.guard.told(self.operation, begun),
            May::No => self.guard.not_authorized(self.operation),
            May::Unknown => self.guard.not_asked(self.operation),
        }
    }

    async fn may_see(&self, head: &request::Parts, asked_first: Option<&str>) -> May {
        let principal = self.principal.as_deref();
        match &self.guard.inner.rules.authorize {
            Some(authorize) => {
                let replaying = Replaying { operation: self.operation, principal, asked_first, request: head };
                authorize.may_see(&replaying).await
            }
            // Nobody in particular is not everybody: who has no name sees what was asked without one.
            None => May::from(asked_first == principal),
        }
    }
}

/// The call of an activity, as the engine knows it: two ways to the same provider are one.
fn activity_call(guard: &Guard, caller: &Caller, of: &ActivityOf) -> Call {
    let place = Place { run: &of.run, node: &of.node, ordinal: of.ordinal, provider: &of.provider };
    let mut activity = guard.inner.engine.activity(&caller.tenant, &place);
    if let Some(provider) = &guard.inner.rules.provider {
        // What this route knows of the provider comes before what is built in.
        let name = of.provider.split(':').next().unwrap_or_default();
        let provider = Provider { honours: window(provider).is_some(), ..Provider::clone(provider) };
        activity = activity.providers(&Providers::built_in().with(name, provider));
    }
    match &of.business_key {
        Some(key) => activity.business_key(key).into_call(),
        None => activity.into_call(),
    }
}

/// The window of a provider that is really sent the key: one that goes into the body is not, so it is not relied on.
fn window(provider: &Provider) -> Option<Millis> {
    match provider.carrier {
        Carrier::Header(_) => provider.window(),
        Carrier::Field(_) => None,
    }
}

/// A part of a scope, of bounded length: what is longer goes by its digest.
fn scope_part(method: &str, text: &str) -> String {
    const MOST: usize = 200;
    if method.len() + text.len() < MOST {
        return format!("{method} {text}");
    }
    format!("digest {}", Id::derived("hapax.http.scope.v1", &[method.as_bytes(), text.as_bytes()]))
}
