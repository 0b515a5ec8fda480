//! What the owner of an attempt says about it.

use std::sync::atomic::Ordering::Relaxed;

use hapax_core::{
    Id, Outcome, OutcomeClass, Token,
    command::{Conflict, Done, Refused, Release},
};
use hapax_engine::{EngineError, Stepped, Ticket};
use http::StatusCode;

use super::begin::{lease_of, noted_step};
use crate::{
    app::{App, Asked, Caller},
    endpoint::Name,
    http::{Reply, Sent, answer, json},
    problem::{Next, Problem},
    records,
    wire::{
        FailRequest, FinishRequest, OutcomeWire, ReleaseRequest, ReleaseWhy, RenewRequest, StepAnswer, TokenRequest,
    },
};

/// What is said.
enum Said {
    Start,
    Renew(Option<hapax_core::Millis>),
    Complete(Outcome),
    Reject(Outcome),
    Fail(Outcome),
    Release(Release),
}

impl Said {
    const fn name(&self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Renew(_) => "renew",
            Self::Complete(_) => "complete",
            Self::Reject(_) => "reject",
            Self::Fail(_) => "fail",
            Self::Release(_) => "release",
        }
    }

    const fn has_outcome(&self) -> bool {
        match self {
            Self::Complete(_) | Self::Reject(_) | Self::Fail(_) => true,
            Self::Start | Self::Renew(_) | Self::Release(_) => false,
        }
    }

    const fn ends(&self) -> bool {
        match self {
            Self::Complete(_) | Self::Reject(_) | Self::Fail(_) | Self::Release(_) => true,
            Self::Start | Self::Renew(_) => false,
        }
    }
}

pub(crate) async fn step(app: &App, name: Name, asked: Box<Asked>) -> Result<Reply, Problem> {
    let Some(id) = asked.id else { return Err(Problem::unknown_operation()) };
    let caller = asked.caller;
    let (token, said) = read(app, name, &asked.headers, asked.body).await?;
    let token = Token::parse(&token)
        .ok_or_else(|| Problem::bad_request("`token` is not one that begin has given: a number, a dot, 32 digits"))?;
    let (ends, has_outcome) = (said.ends(), said.has_outcome());
    noted_step(app, &caller, said.name(), &id.to_string()).await?;
    let stepped = match app.tickets.get(&id, token, &caller) {
        Some(ticket) => with_ticket(app, &ticket, said).await,
        None => with_token(app, &caller, &id, token, said).await,
    };
    let stepped = stepped?;
    if ends && matches!(stepped, Stepped::Done(_) | Stepped::Fenced) {
        app.tickets.drop(&id, token);
    }
    if matches!(stepped, Stepped::Fenced) {
        app.metrics.steps_fenced.fetch_add(1, Relaxed);
    }
    told(&id, stepped, has_outcome)
}

async fn read(app: &App, name: Name, headers: &http::HeaderMap, body: Sent) -> Result<(String, Said), Problem> {
    let limits = &app.limits;
    Ok(match name {
        Name::Renew => {
            let said: RenewRequest = json(headers, body, limits).await?;
            (said.token, Said::Renew(said.lease_ms.map(lease_of).transpose()?))
        }
        Name::Complete => {
            let said: FinishRequest = json(headers, body, limits).await?;
            let outcome = outcome(said.outcome, OutcomeClass::Success, OutcomeClass::completes)?;
            (said.token, Said::Complete(outcome))
        }
        Name::Reject => {
            let said: FinishRequest = json(headers, body, limits).await?;
            let outcome = outcome(said.outcome, OutcomeClass::FinalFailure, OutcomeClass::rejects)?;
            (said.token, Said::Reject(outcome))
        }
        Name::Fail => {
            let said: FailRequest = json(headers, body, limits).await?;
            let outcome = outcome(said.outcome, OutcomeClass::RetryableFailure, OutcomeClass::fails)?;
            (said.token, Said::Fail(outcome))
        }
        Name::Release => {
            let said: ReleaseRequest = json(headers, body, limits).await?;
            let why = match said.why {
                ReleaseWhy::BeforeStart => Release::BeforeStart,
                ReleaseWhy::NoEffect => Release::NoEffect,
            };
            (said.token, Said::Release(why))
        }
        // The other endpoints are not steps, and never come here.
        Name::Start
        | Name::Begin
        | Name::Resolve
        | Name::ExplainKey
        | Name::List
        | Name::Explain
        | Name::Doubt
        | Name::Events
        | Name::Policies
        | Name::SetPolicies
        | Name::Reload
        | Name::Keys
        | Name::AddKey
        | Name::RevokeKey
        | Name::Audit
        | Name::Metrics
        | Name::Health
        | Name::Ready
        | Name::OpenApi
        | Name::OpenWop
        | Name::Page
        | Name::PageFragment
        | Name::PageOperation
        | Name::PageResolve
        | Name::PageStyle
        | Name::PageScript
        | Name::A2a(_)
        | Name::Agents(_) => {
            let said: TokenRequest = json(headers, body, limits).await?;
            (said.token, Said::Start)
        }
    })
}

/// `usual` is meant where no class is named. The rules would refuse what does not fit as well, but only of a record that the
/// caller may see: asked first, the answer is the same for everybody.
pub(super) fn outcome(
    wire: OutcomeWire,
    usual: OutcomeClass,
    fits: impl Fn(OutcomeClass) -> bool,
) -> Result<Outcome, Problem> {
    let outcome = wire.into_outcome(usual).map_err(|error| Problem::bad_request(error.to_string()))?;
    if fits(outcome.class) { Ok(outcome) } else { Err(wrong_class()) }
}

fn wrong_class() -> Problem {
    Problem::bad_request("`class` does not go with this endpoint; leave it out, or use another one")
}

async fn with_ticket(app: &App, ticket: &Ticket, said: Said) -> Result<Stepped, EngineError> {
    let engine = &app.engine;
    match said {
        Said::Start => ticket.start(engine).await,
        Said::Renew(lease) => {
            let stepped = match lease {
                None => ticket.renew(engine).await?,
                Some(lease) => engine.renew(&ticket.id(), ticket.token(), lease).await?,
            };
            if stepped.is_done() {
                app.tickets.renewed(&ticket.id(), ticket.token(), lease.unwrap_or(ticket.lease()).as_std());
            }
            Ok(stepped)
        }
        Said::Complete(outcome) => ticket.complete(engine, outcome).await,
        Said::Reject(outcome) => ticket.reject(engine, outcome).await,
        Said::Fail(outcome) => ticket.fail(engine, outcome).await,
        Said::Release(why) => ticket.release(engine, why).await,
    }
}

/// Begun by another process, before a restart, or ended already: the token is all there is.
async fn with_token(app: &App, caller: &Caller, id: &Id, token: Token, said: Said) -> Result<Stepped, EngineError> {
    let engine = &app.engine;
    let seen = records::read(engine, id).await?;
    // Somebody else's reads as nothing: the same answer, and nothing is touched.
    if seen.as_ref().is_some_and(|seen| !caller.sees(&seen.record.about.tenant, &seen.record.about.surface)) {
        return Ok(match said {
            Said::Release(_) => Stepped::Done(Done { already: true, late: false }),
            Said::Start | Said::Renew(_) | Said::Complete(_) | Said::Reject(_) | Said::Fail(_) => Stepped::Fenced,
        });
    }
    match said {
        Said::Start => engine.start(id, token).await,
        Said::Renew(lease) => {
            let kept = seen.as_ref().and_then(|seen| match &seen.record.state {
                hapax_core::State::Pending(pending) => Some(pending.lease.length),
                hapax_core::State::Open(_)
                | hapax_core::State::InDoubt(_)
                | hapax_core::State::Committed(_)
                | hapax_core::State::Rejected(_)
                | hapax_core::State::Tombstone(_) => None,
            });
            engine.renew(id, token, lease.or(kept).unwrap_or(hapax_core::Millis::from_secs(60))).await
        }
        Said::Complete(outcome) => engine.complete(id, token, outcome).await,
        Said::Reject(outcome) => engine.reject(id, token, outcome).await,
        Said::Fail(outcome) => engine.fail(id, token, outcome).await,
        Said::Release(why) => engine.release(id, token, why).await,
    }
}

/// What a step came to.
pub(crate) fn told(id: &Id, stepped: Stepped, has_outcome: bool) -> Result<Reply, Problem> {
    let conflict = |code, title, detail: &'static str, next| {
        Err(Problem::new(StatusCode::CONFLICT, code, title, detail, next).about(*id))
    };
    match stepped {
        Stepped::Done(done) => Ok(answer(&StepAnswer { already: done.already, late: done.late })),
        Stepped::Fenced if has_outcome => {
            let detail = "the token no longer counts: a newer attempt began, somebody resolved it, or nothing is known \
                          under this id. The outcome was kept as evidence where there is a record";
            conflict("HX0016", "The outcome came too late", detail, Next::Stop)
        }
        Stepped::Fenced => {
            let detail = "the token no longer counts: its lease is over, a newer attempt began, or nothing is known under \
                          this id. Do not start the effect; begin again with the same key";
            conflict("HX0076", "The token no longer counts", detail, Next::RetrySameKey)
        }
        Stepped::Conflict(Conflict::OtherOutcome(_)) => {
            let detail = "this attempt ended with another outcome before, and that one stands";
            conflict("HX0077", "Another outcome stands", detail, Next::Stop)
        }
        Stepped::Conflict(Conflict::VersionMoved { now_at }) => {
            let detail = "something was written since this version was read; look at it again before deciding";
            let title = "The version has moved";
            let problem = Problem::new(StatusCode::CONFLICT, "HX0078", title, detail, Next::FixRequest).about(*id);
            Err(Problem { version: Some(now_at), ..problem })
        }
        Stepped::Conflict(Conflict::WrongState(_) | Conflict::ProbeClaimed { .. }) => {
            let detail = "the operation is in no state in which this can be said";
            conflict("HX0079", "Not in this state", detail, Next::Stop)
        }
        Stepped::Refused(Refused::WrongClass(_)) => Err(wrong_class()),
        Stepped::Refused(Refused::BlankReason) => Err(Problem::bad_request("`reason` is blank; say why")),
        Stepped::Refused(Refused::AlreadyStarted) => {
            let detail = "it had started; give it back with `why` = `no_effect` if nothing happened, otherwise fail it";
            conflict("HX0079", "Not in this state", detail, Next::FixRequest)
        }
        Stepped::Refused(Refused::PastMaxAttempt) => {
            let detail = "the attempt is past the longest time that its policy allows";
            conflict("HX0079", "Not in this state", detail, Next::Stop)
        }
        Stepped::Refused(Refused::Live | Refused::NoTombstones) => {
            conflict("HX0079", "Not in this state", "it cannot be given up now", Next::Stop)
        }
    }
}
