//! The lower level: what to do with one request, step by step, for whoever moves the bytes.
//!
//! ```text
//!   look(head) ── Pass ─────────────────────► send it on as it is, nothing is buffered
//!      │ Buffer
//!   ask(head, body, caller) ── Pass, Answer
//!      │ Ask
//!   peek() ── an answer that needs no upstream (no write)
//!      │ None
//!   begin() ── Answer, Unprotected
//!      │ Run
//!   Running: finish · stream · no_effect · unknown · deferred
//! ```

mod asking;
mod running;
mod streaming;
mod told;

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Id, identity::RequestPrint, policy::Mode};
use hapax_engine::{Engine, Policies};
use http::{Method, Response, request};
use parking_lot::RwLock;

use crate::{
    caller::Caller,
    key::{self, Found, Unfit},
    problem::{Code, NextStep, Problem},
    resolved::Resolved,
    rules::{Limits, Rules, RulesError},
};

use asking::Named;

pub use asking::{Asking, Begin, Peek};
pub use running::{Lease, Running, mark_unprotected};
pub use streaming::{Cut, Streaming};

/// A whole answer, ready to be sent.
pub type Answer = Response<Bytes>;

/// Guards one route. Cloning it gives another handle to the same guard.
#[derive(Clone, Debug)]
pub struct Guard {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    rules: Rules,
    known: RwLock<Known>,
    /// Whether it goes along when the policy changes.
    follows: bool,
}

/// The rules over the policy that was in force when a request last came.
#[derive(Debug)]
struct Known {
    resolved: Arc<Resolved>,
    /// How often policies had been put in force then; `None`: it was not looked at yet whether this is the one.
    at: Option<u64>,
}

/// What a request's head says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Look {
    /// Not ours: send it on untouched.
    Pass,
    /// Read the body, at most so many bytes, then [`Guard::ask`]. More bytes: [`Guard::too_large`].
    Buffer { most: usize },
}

/// What a whole request comes to.
#[derive(Debug)]
#[must_use]
pub enum Asked {
    /// Not protected: send it on, with this body.
    Pass(Bytes),
    /// Refused before anything happened.
    Answer(Answer),
    Ask(Box<Asking>),
}

impl Guard {
    /// Checks the rules against the policy of their surface.
    pub fn new(engine: Engine, rules: Rules) -> Result<Self, RulesError> {
        let policies = engine.policies();
        Self::under(engine, rules, &policies)
    }

    /// The same for policies that are about to be put in force.
    pub fn under(engine: Engine, rules: Rules, policies: &Policies) -> Result<Self, RulesError> {
        let resolved = Resolved::of(&rules, Arc::clone(policies.of(&rules.surface)))?;
        let known = RwLock::new(Known { resolved: Arc::new(resolved), at: None });
        Ok(Self { inner: Arc::new(Inner { engine, rules, known, follows: true }) })
    }

    /// The same under the policy that it was last asked under, whichever comes to be in force: for whoever has to know
    /// requests by the names that they had.
    #[must_use]
    pub fn as_it_was(&self) -> Self {
        let Inner { engine, rules, known, follows: _ } = &*self.inner;
        let known = RwLock::new(Known { resolved: Arc::clone(&known.read().resolved), at: None });
        Self { inner: Arc::new(Inner { engine: engine.clone(), rules: rules.clone(), known, follows: false }) }
    }

    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    #[must_use]
    pub fn limits(&self) -> Limits {
        self.inner.rules.limits
    }

    /// An answer of the route's own making, in its dialect. It is never recorded.
    #[must_use]
    pub fn problem(&self, problem: &Problem) -> Answer {
        self.inner.rules.dialect.answer(problem)
    }

    /// The request's body is longer than the route takes. Nothing was begun; what is left of the body has to be read
    /// away, or the connection closed.
    #[must_use]
    pub fn too_large(&self) -> Answer {
        let most = self.inner.rules.limits.request_body;
        let detail = format!("the request's body has more than {most} bytes; send less");
        // Under the same key a shorter one may have run.
        self.problem(&Problem::new(Code::TooLarge, NextStep::FixRequest, detail))
    }

    /// Whether the request is ours at all.
    pub fn look(&self, head: &request::Parts) -> Look {
        if is_safe(&head.method) {
            return Look::Pass;
        }
        let resolved = self.resolved();
        let most = self.inner.rules.limits.request_body;
        // Which key it is, and whether it is one, is for later.
        if resolved.required || resolved.key_in_body() || key::is_in_head(&resolved, head) {
            Look::Buffer { most }
        } else {
            Look::Pass
        }
    }

    /// Whether the policy in force only watches: then nothing of it may stop a request. Whoever is about to do so asks
    /// here first; `true`: it is noted, and the request goes on as if we were not there.
    #[must_use]
    pub fn only_notes(&self, head: &request::Parts, because: &'static str) -> bool {
        if self.resolved().policy.mode != Mode::Shadow {
            return false;
        }
        let about = [self.inner.rules.surface.as_str(), head.method.as_str(), head.uri.path()].map(str::as_bytes);
        self.inner.engine.would_stop(Id::derived("hapax.http.stopped.v1", &about), because);
        true
    }

    /// Finds the key, takes the fingerprint, and says what comes next.
    pub fn ask(&self, head: &request::Parts, body: Bytes, caller: &Caller) -> Asked {
        if is_safe(&head.method) {
            return Asked::Pass(body);
        }
        let rules = &self.inner.rules;
        let resolved = self.resolved();
        let unchanged = body.clone();
        let body = match &rules.overrides {
            Some(change) => change(head, body),
            None => body,
        };
        let found = match key::anywhere(&resolved, head, &body) {
            // Known by its place; it brings a key of its own.
            Ok(_) | Err(_) if caller.activity.is_some() => Found::Automatic,
            Ok(found) => found,
            Err(_) if self.only_notes(head, "key invalid") => return Asked::Pass(unchanged),
            Err(unfit) => {
                let problem = match unfit {
                    Unfit::Malformed(why) => {
                        Problem::new(Code::KeyInvalid, NextStep::UseNewKey, why).nothing_happened()
                    }
                    // One of them may be the key of something that ran.
                    Unfit::Several(why) => Problem::new(Code::KeyInvalid, NextStep::FixRequest, why),
                };
                return Asked::Answer(self.problem(&problem));
            }
        };
        let endpoint = caller.endpoint.as_deref().unwrap_or_else(|| head.uri.path());
        let names: Vec<&str> = resolved.query_names.iter().map(String::as_str).collect();
        let content_type = head.headers.get(http::header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
        let content_type = content_type.map(String::from_utf8_lossy);
        let mut request = RequestPrint::new(head.method.as_str(), endpoint)
            .query_without(head.uri.query().unwrap_or_default(), &names)
            .body(&body);
        for (name, value) in &caller.path {
            request = request.path_parameter(name, value);
        }
        if let Some(content_type) = &content_type {
            request = request.content_type(content_type);
        }
        if let Some(selection) = &resolved.selection {
            request = request.selection(selection);
        }
        let named = match found {
            Found::Key(key) => Named::Given(key),
            Found::Automatic => Named::ByItself(request.print(self.inner.engine.printer())),
            Found::Nothing if resolved.required && !self.only_notes(head, "key missing") => {
                return Asked::Answer(self.key_missing());
            }
            Found::Nothing => return Asked::Pass(unchanged),
        };
        match Asking::new(self, &resolved, head, &body, caller, named, &request) {
            Ok(asking) => Asked::Ask(Box::new(asking)),
            Err(_) if self.only_notes(head, "not recordable") => Asked::Pass(unchanged),
            Err(error) => Asked::Answer(self.unavailable(&error, None)),
        }
    }

    fn key_missing(&self) -> Answer {
        let detail = "this request needs an idempotency key; send a unique value per intent, such as a UUID, in the \
                      `Idempotency-Key` header";
        self.problem(&Problem::new(Code::KeyMissing, NextStep::FixRequest, detail).nothing_happened())
    }

    /// The rules over the policy in force.
    fn resolved(&self) -> Arc<Resolved> {
        let inner = &*self.inner;
        let at = inner.engine.reloads();
        let known = inner.known.read();
        if !inner.follows || known.at == Some(at) {
            return Arc::clone(&known.resolved);
        }
        drop(known);
        self.resolved_anew(at)
    }

    #[cold]
    fn resolved_anew(&self, at: u64) -> Arc<Resolved> {
        let inner = &*self.inner;
        // Asked for after the count: what came in between is found by whoever comes next.
        let policy = inner.engine.policy(&inner.rules.surface);
        let mut known = inner.known.write();
        // A policy that does not go with these rules leaves the ones before it in force.
        if !Arc::ptr_eq(&known.resolved.policy, &policy)
            && let Ok(resolved) = Resolved::of(&inner.rules, policy)
        {
            known.resolved = Arc::new(resolved);
        }
        known.at = Some(at);
        Arc::clone(&known.resolved)
    }
}

/// Methods that change nothing: a key on them is ignored.
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}
