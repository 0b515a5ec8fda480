//! Jobs that clients number themselves (AD-40): submitted, reported, looked at.

use hapax_core::{Id, OutcomeClass, State};
use http::StatusCode;

use super::{
    finish::{finished, seen, token_of},
    may_use,
};
use crate::{
    api::{begin_call, wished},
    app::{App, Asked, Caller},
    http::{Reply, answer, json},
    problem::{Next, Problem},
    records::Seen,
    wire::{JobEnd, JobReport, JobRequest, JobWire, OutcomeWire},
    words,
};

const SURFACE: &str = "job";

pub(super) async fn submit(app: &App, asked: Asked) -> Result<Reply, Problem> {
    may_use(&asked.caller, SURFACE)?;
    let wanted: JobRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let call = app.engine.jobs(&asked.caller.identity.tenant)?.call(&wanted.key).map_err(|error| {
        let title = "A name or a key cannot be used";
        Problem::new(StatusCode::BAD_REQUEST, "HX0001", title, error.to_string(), Next::FixRequest)
    })?;
    let call = call.fingerprint(&*wanted.job).principal(&asked.caller.identity.principal);
    let call = wished(call, wanted.effect.as_deref(), wanted.lease_ms, wanted.wait_ms)?;
    begin_call(app, &asked.caller, SURFACE, call, wanted.nonce.as_deref()).await
}

/// A job of the caller's; an operation that is none is as unknown as a stranger's.
async fn job(app: &App, caller: &Caller, id: Option<Id>) -> Result<(Id, Seen), Problem> {
    may_use(caller, SURFACE)?;
    let id = id.ok_or_else(Problem::unknown_operation)?;
    let seen = seen(app, caller, &id).await?;
    if &*seen.record.about.surface == SURFACE { Ok((id, seen)) } else { Err(Problem::unknown_operation()) }
}

/// Records whether it was accepted.
pub(super) async fn report(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: JobReport = json(&asked.headers, asked.body, &app.limits).await?;
    let token = token_of(&wanted.token)?;
    let class = match wanted.ended {
        JobEnd::Committed => OutcomeClass::Success,
        JobEnd::Rejected => OutcomeClass::FinalFailure,
    };
    let outcome = wanted.outcome.into_outcome(class).map_err(|error| Problem::bad_request(error.to_string()))?;
    if outcome.class != class {
        return Err(Problem::bad_request("`ended` says how it ended; leave `class` out"));
    }
    let (id, seen) = job(app, &asked.caller, asked.id).await?;
    finished(app, &asked.caller, &id, token, &seen, outcome).await
}

pub(super) async fn show(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let (id, seen) = job(app, &asked.caller, asked.id).await?;
    let record = &seen.record;
    let outcome = match &record.state {
        State::Committed(done) | State::Rejected(done) => Some(OutcomeWire::outline(&done.outcome)),
        State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Tombstone(_) => None,
    };
    Ok(answer(&JobWire {
        operation: id.to_string(),
        state: words::state(record.state.name()).to_owned(),
        attempt: record.attempt.number,
        begun_at: record.attempt.begun_wall.0,
        ends_in_ms: seen.ends_in_ms(),
        outcome,
    }))
}
