use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Anchor, Fingerprint, Honoured, Id, Millis, identity::Key};
use hapax_engine::{Begun, Call, Carrier, Decision, EngineError, Place, Provider, Providers, Ticket, Unprotected};
use http::request;

use super::{Answer, Guard, running::Running};
use crate::{
    caller::{ActivityOf, Caller},
    resolved::Resolved,
    rules::Replaying,
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
        body: Bytes,
        caller: &Caller,
        endpoint: &str,
        key: Key,
        print: Fingerprint,
    ) -> Result<Self, EngineError> {
        let rules = &guard.inner.rules;
        let mut call = match &caller.activity {
            Some(activity) => activity_call(guard, caller, activity),
            None => {
                let mut scope = guard.inner.engine.surface(rules.surface.as_str()).tenant(&caller.tenant);
                if resolved.per_endpoint {
                    scope = scope.within("endpoint", &scope_part(head.method.as_str(), endpoint));
                }
                if let Some(principal) = caller.principal.as_deref().filter(|_| rules.per_principal) {
                    scope = scope.within("principal", &scope_part("", principal));
                }
                scope.with_key(key)
            }
        };
        call = call.fingerprinted(print).effect(rules.effect).mismatch_in_flight(resolved.mismatch_in_flight);
        if let Some(window) = rules.provider.as_deref().and_then(window) {
            call = call.honoured(Honoured { from: Anchor::Write, window });
        }
        if let Some(principal) = &caller.principal {
            call = call.principal(principal);
        }
        let operation = call.id()?;
        Ok(Self {
            guard: guard.clone(),
            resolved: Arc::clone(resolved),
            call,
            operation,
            body,
            principal: caller.principal.clone(),
        })
    }

    /// The name under which the request is recorded.
    #[must_use]
    pub const fn operation(&self) -> Id {
        self.operation
    }

    /// The body to run with, after server-side overrides.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// Answers what is decided, under way or in doubt, from memory or by one read. It waits for an attempt under way as
    /// long as the policy says, and writes nothing.
    pub async fn peek(&self, head: &request::Parts) -> Peek {
        match self.call.peek().await {
            Ok(Some(begun)) => Peek::Answer(self.told(head, begun).await),
            // A store that does not answer is the begin's affair: it knows what the policy says of that.
            Ok(None) | Err(_) => Peek::Begin,
        }
    }

    /// Asks for the right to run it: the first durable write.
    pub async fn begin(self, head: &request::Parts) -> Begin {
        match self.call.clone().decide().await {
            Ok(Decision::Execute(ticket)) => Begin::Run(Running::new(self.guard, self.resolved, ticket)),
            Ok(Decision::Unprotected { ticket, why }) => Begin::Unprotected { ticket, why },
            Ok(Decision::Told(begun)) => Begin::Answer(self.told(head, begun).await),
            Err(error) => Begin::Answer(self.guard.unavailable(&error, Some(self.operation))),
        }
    }

    async fn told(&self, head: &request::Parts, begun: Begun) -> Answer {
        // Whether it runs, failed or was never recorded is nobody's secret within a tenant; an answer may be.
        if let Begun::Replay(_) | Begun::JoinedFailure(_) = &begun
            && !self.may_see(head).await
        {
            return self.guard.not_authorized(self.operation);
        }
        self.guard.told(self.operation, begun)
    }

    async fn may_see(&self, head: &request::Parts) -> bool {
        let rules = &self.guard.inner.rules;
        if rules.authorize.is_none() && self.principal.is_none() {
            return true;
        }
        // Without knowing whose answer it is, nobody gets it.
        let Ok(asked_first) = self.guard.inner.engine.asked_first(&self.operation).await else { return false };
        let asked_first = asked_first.flatten();
        match &rules.authorize {
            Some(authorize) => {
                let replaying = Replaying {
                    operation: self.operation,
                    principal: self.principal.as_deref(),
                    asked_first: asked_first.as_deref(),
                    request: head,
                };
                authorize.may_see(&replaying).await
            }
            None => asked_first.is_none() || asked_first == self.principal,
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
