use std::{future::Future, sync::Arc};

use bytes::Bytes;
use hapax_core::{
    Body, Outcome, OutcomeClass, Policy, activity, body_digest, meaning,
    policy::{Disposition, Keep},
};
use hapax_engine::{Carrier, Engine, Provider, Settled, Ticket, Unprotected};
use http::{HeaderName, HeaderValue, Response, response};

use super::{Answer, Guard, Streaming};
use crate::{
    headers::Kept,
    mark::Mark,
    problem::{Code, NextStep, Problem},
    resolved::Resolved,
    rules::Limits,
};

/// Marks an answer of which nothing was recorded, because the store was gone and the work is pure.
const UNRECORDED: HeaderName = HeaderName::from_static("hapax-unrecorded");

/// Says of an answer that it is not recorded, where its caller would otherwise count on it.
pub fn mark_unprotected(headers: &mut http::HeaderMap, why: Unprotected) {
    match why {
        Unprotected::Shadow => {}
        Unprotected::StoreGone => {
            headers.insert(UNRECORDED, HeaderValue::from_static("true"));
        }
    }
}

/// The longest body that is taken for an identifier.
const LONGEST_HANDLE: usize = 1_024;

/// A request that is ours to run. It has to be ended by one of its methods; dropped without a word, its lease lapses
/// and the class of the effect decides.
#[derive(Debug)]
#[must_use]
pub struct Running {
    pub(super) guard: Guard,
    pub(super) resolved: Arc<Resolved>,
    ticket: Ticket,
    /// A call that a run makes outside: its answers mean what they mean to activities, under the policy of those.
    activity: bool,
}

/// The right to keep an attempt's lease, without the right to end it.
#[derive(Clone, Debug)]
pub struct Lease {
    engine: Engine,
    ticket: Ticket,
}

impl Lease {
    /// As [`Running::during`].
    pub async fn during<F: Future>(&self, work: F) -> Option<F::Output> {
        self.ticket.during(&self.engine, work).await
    }
}

impl Running {
    pub(super) const fn new(guard: Guard, resolved: Arc<Resolved>, ticket: Ticket, activity: bool) -> Self {
        Self { guard, resolved, ticket, activity }
    }

    /// Token, attempt, fence, and the key to pass on.
    #[must_use]
    pub const fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Keeps the lease where the request itself has been handed on.
    #[must_use]
    pub fn lease(&self) -> Lease {
        Lease { engine: self.guard.inner.engine.clone(), ticket: self.ticket.clone() }
    }

    #[must_use]
    pub fn limits(&self) -> Limits {
        self.guard.limits()
    }

    /// The longest body that is recorded.
    #[must_use]
    pub fn most_captured(&self) -> u64 {
        self.policy().capture.max_body
    }

    /// The policy that says what becomes of the answer.
    fn policy(&self) -> &Arc<Policy> {
        if self.activity { self.ticket.policy() } else { &self.resolved.policy }
    }

    /// Whether nothing was begun under its key before: where this attempt did nothing either, nothing has happened.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.ticket.attempt() == 1
    }

    /// Runs something while the lease is renewed. `None`: the lease was lost and the effect may be run again by
    /// somebody else, so it was dropped; [`Running::lease_lost`] is the answer.
    pub async fn during<F: Future>(&self, work: F) -> Option<F::Output> {
        self.ticket.during(&self.guard.inner.engine, work).await
    }

    /// It was answered: records what the answer means, and gives what the caller is to get. That is the answer itself,
    /// unless it could not be recorded.
    pub async fn finish(self, answer: Answer) -> Answer {
        let (head, body) = answer.into_parts();
        let class = self.class_of(&head);
        let outcome = match self.policy().disposition(class, true) {
            Disposition::Complete | Disposition::Reject | Disposition::Fail => {
                let kept = self.kept_body(&body);
                self.outcome(&head, class, kept)
            }
            Disposition::FailUnknown | Disposition::Release => Outcome::new(class, Body::Empty),
        };
        match self.settle(outcome).await {
            Ok(mark) => {
                let mut answer = Response::from_parts(head, body);
                answer.headers_mut().extend(mark);
                answer
            }
            Err(refused) => refused,
        }
    }

    /// Its answer is passed on while it comes, and recorded before its end.
    pub fn stream(mut self, head: &response::Parts, capture: bool) -> Streaming {
        // The route's own limit was for the time up to here. An activity has none of its route.
        if !self.activity {
            self.ticket = self.ticket.under(&self.resolved.policy);
        }
        Streaming::new(self, head, capture)
    }

    /// It was answered with a body that is not kept: what can be said of it is recorded.
    pub async fn uncaptured(self, head: &response::Parts, length: u64, digest: [u8; 32]) -> Result<(), Answer> {
        let class = self.class_of(head);
        let outcome = self.outcome(head, class, Body::Uncaptured { length, digest });
        self.settle(outcome).await.map(|_| ())
    }

    /// Nothing happened: the key is as if it had not been used.
    pub async fn no_effect(self) {
        self.ended_as(OutcomeClass::NotRecordable).await;
    }

    /// The request had reached its handler or upstream, and nobody can say what came of it: what is answered now is
    /// made up here. No preset changes that; the class of the effect decides.
    pub async fn unknown(self) {
        self.ended_as(meaning::MADE_UP).await;
    }

    pub(super) async fn ended_as(self, class: OutcomeClass) {
        let outcome = Outcome::new(class, Body::Empty);
        let _offered_again = self.settled(outcome).await;
    }

    async fn settled(&self, outcome: Outcome) -> Settled {
        let settled = self.ticket.settle(&self.guard.inner.engine, outcome).await;
        if let Settled::NotRecorded(error) = &settled {
            self.guard.trouble(error);
        }
        settled
    }

    /// As [`Running::unknown`], with the answer to give: for a handler that panicked or broke off.
    pub async fn no_answer(self, code: Code, detail: &'static str) -> Answer {
        self.answer_instead(meaning::MADE_UP, code, detail).await
    }

    /// As [`Running::no_answer`], where the head of an answer came and its body broke off.
    pub async fn broken_answer(self, head: &response::Parts, code: Code, detail: &'static str) -> Answer {
        let class = meaning::broken_off(self.class_of(head));
        self.answer_instead(class, code, detail).await
    }

    async fn answer_instead(self, class: OutcomeClass, code: Code, detail: &'static str) -> Answer {
        let free = match self.policy().disposition(class, true) {
            Disposition::Release => true,
            Disposition::Complete | Disposition::Reject | Disposition::Fail | Disposition::FailUnknown => false,
        };
        let next = if free || self.ticket_may_rerun() { NextStep::RetrySameKey } else { NextStep::AskOperator };
        let problem = Problem::new(code, next, detail).about(self.ticket.id());
        let answer = self.guard.problem(&problem);
        self.ended_as(class).await;
        answer
    }

    /// It was answered for now; whoever holds its token renews and ends it.
    pub fn deferred(self) -> Ticket {
        self.ticket
    }

    /// The answer after [`Running::during`] gave nothing.
    #[must_use]
    pub fn lease_lost(&self) -> Answer {
        let detail = "the work took longer than it may without a sign of life, and was stopped; send the request again \
                      with the same key";
        let problem = Problem::new(Code::Unavailable, NextStep::RetrySameKey, detail);
        self.guard.problem(&problem.about(self.ticket.id()).retry_after(hapax_core::Millis::from_secs(1)))
    }

    fn provider(&self) -> Option<&Arc<Provider>> {
        self.guard.inner.rules.provider.as_ref()
    }

    /// The header that the provider is to be sent with this request, and with no other: its name and the downstream key.
    #[must_use]
    pub fn injected(&self) -> Option<(HeaderName, HeaderValue)> {
        let provider = self.provider()?;
        let Carrier::Header(name) = &provider.carrier else { return None };
        let mut key = self.ticket.downstream_key();
        key.truncate(provider.most);
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(&key).ok()?))
    }

    fn ticket_may_rerun(&self) -> bool {
        self.guard.inner.rules.effect.may_rerun()
    }

    pub(super) fn class_of(&self, head: &response::Parts) -> OutcomeClass {
        let (effect, status) = (self.guard.inner.rules.effect, head.status.as_u16());
        let retryable = self.provider().map_or(&[][..], |provider| &provider.retryable);
        match head.extensions.get::<Mark>() {
            Some(mark) => mark.class(head.status),
            None if self.activity => activity::answer_class(status, effect, retryable),
            None if retryable.contains(&status) => OutcomeClass::RetryableFailure,
            None => self.resolved.policy.answers.class(effect, status),
        }
    }

    pub(super) fn outcome(&self, head: &response::Parts, class: OutcomeClass, body: Body) -> Outcome {
        let headers = if self.activity {
            Kept::by(self.policy(), &self.guard.inner.rules.secret_headers).of(&head.headers)
        } else {
            self.resolved.kept.of(&head.headers)
        };
        Outcome { class, status: head.status.as_u16(), headers, body }
    }

    /// As much of the body as the policy keeps.
    pub(super) fn kept_body(&self, body: &Bytes) -> Body {
        let not_kept = || Body::Uncaptured { length: body.len() as u64, digest: body_digest(body) };
        match self.policy().capture.keep {
            // The engine drops what is too long, and lays what is long beside the record.
            Keep::Whole if body.is_empty() => Body::Empty,
            Keep::Whole => Body::Inline(body.clone().into()),
            Keep::Handle => match std::str::from_utf8(body) {
                Ok(text) if text.len() <= LONGEST_HANDLE => Body::Handle(text.into()),
                Ok(_) | Err(_) => not_kept(),
            },
            Keep::Marker => not_kept(),
        }
    }

    /// Records the end. The mark goes onto the answer; an answer instead of it means that the first may not be given.
    pub(super) async fn settle(&self, outcome: Outcome) -> Result<Option<(HeaderName, HeaderValue)>, Answer> {
        let stands = match self.policy().disposition(outcome.class, true) {
            Disposition::Complete | Disposition::Reject => true,
            // Nobody is promised to get it again, so it may be given whatever became of the record.
            Disposition::Fail | Disposition::FailUnknown | Disposition::Release => false,
        };
        let operation = self.ticket.id();
        let problem = match self.settled(outcome).await {
            Settled::Recorded => return Ok(None),
            Settled::Unrecorded => return Ok(Some((UNRECORDED, HeaderValue::from_static("true")))),
            Settled::Overtaken | Settled::NotRecorded(_) if !stands => return Ok(None),
            Settled::Overtaken => Problem::new(
                Code::Fenced,
                NextStep::RetrySameKey,
                "somebody else decided this request while it ran; the same key says how",
            ),
            Settled::NotRecorded(_) => Problem::new(
                Code::Unavailable,
                NextStep::RetrySameKey,
                "the request was run, but its answer cannot be recorded right now; send it again with the same key, \
                 and not with a new one",
            )
            .retry_after(hapax_core::Millis::from_secs(1)),
        };
        Err(self.guard.problem(&problem.about(operation)))
    }
}
