use data_encoding::HEXLOWER;
use hapax_core::{Id, State};
use hapax_engine::Explanation;

use super::{begin::call_of, events};
use crate::{
    app::{App, Asked, Caller},
    http::{Reply, answer, json},
    problem::Problem,
    wire::{AttemptWire, EvidenceWire, ExplainRequest, ExplanationWire, OutcomeWire, ResolvedWire},
    words,
};

pub(crate) async fn explain(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let Some(id) = asked.id else { return Err(Problem::unknown_operation()) };
    Ok(answer(&explained(app, &asked.caller, &id).await?))
}

pub(crate) async fn explain_key(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: ExplainRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let mut caller = asked.caller;
    match (&wanted.tenant, caller.sees_all) {
        (None, false) => {}
        (Some(name), true) => {
            let tenant =
                hapax_core::identity::Tenant::new(name).map_err(|error| Problem::bad_request(error.to_string()))?;
            let identity = crate::auth::Identity { tenant, ..crate::auth::Identity::clone(&caller.identity) };
            caller.identity = std::sync::Arc::new(identity);
        }
        (Some(name), false) if name == caller.tenant() => {}
        (Some(_), false) => return Err(Problem::unknown_operation()),
        (None, true) => return Err(Problem::bad_request("name the `tenant`: a key means nothing without it")),
    }
    let id = call_of(app, &caller, &wanted.surface, &wanted.scope, &wanted.key)?.id()?;
    // Who names itself as a side of the task asks about its own.
    let me = &*caller.identity.principal;
    let is_own = crate::a2a::is_ours(&wanted.surface)
        && wanted.scope.iter().any(|part| ["sender", "recipient"].contains(&&*part.label) && part.value == *me);
    let explanation = app.engine.explain(&id).await?;
    let told = wire(&caller, &explanation, is_own).ok_or_else(Problem::unknown_operation)?;
    Ok(answer(&told))
}

/// What is known about an operation that this caller may see.
pub(crate) async fn explained(app: &App, caller: &Caller, id: &Id) -> Result<ExplanationWire, Problem> {
    let explanation = app.engine.explain(id).await?;
    wire(caller, &explanation, false).ok_or_else(Problem::unknown_operation)
}

/// `is_own`: the caller has shown that it is one of those the operation is about.
fn wire(caller: &Caller, known: &Explanation, is_own: bool) -> Option<ExplanationWire> {
    let sees = |about: &hapax_core::record::About| is_own || caller.sees(&about.tenant, &about.surface);
    let record = known.record.as_ref().filter(|record| sees(&record.about))?;
    let latest = &record.attempt;
    let attempts = record.past.iter().map(|past| AttemptWire {
        number: past.number,
        owner: past.owner.to_string(),
        begun_at: past.begun_wall.0,
        end: words::end(past.end).to_owned(),
    });
    let attempts = attempts.chain([AttemptWire {
        number: latest.number,
        owner: latest.owner.to_string(),
        begun_at: latest.begun_wall.0,
        end: words::end(latest.end).to_owned(),
    }]);
    let outcome = match &record.state {
        State::Committed(done) | State::Rejected(done) => Some(OutcomeWire::outline(&done.outcome)),
        State::Open(open) => open.failure.as_ref().map(OutcomeWire::outline),
        State::Tombstone(stone) => Some(OutcomeWire {
            status: stone.status,
            digest: Some(HEXLOWER.encode(&stone.digest)),
            ..OutcomeWire::default()
        }),
        State::Pending(_) | State::InDoubt(_) => None,
    };
    Some(ExplanationWire {
        operation: known.id.to_string(),
        state: words::state(known.state).to_owned(),
        surface: record.about.surface.to_string(),
        tenant: caller.sees_all.then(|| record.about.tenant.to_string()),
        key_hash: HEXLOWER.encode(&record.about.key_hash),
        derived:
            "SHA-256 over surface, tenant, scope parts and key, each with its length; the key itself is not stored"
                .to_owned(),
        principal: record.about.principal.as_ref().map(ToString::to_string),
        effect: record.effect.name().to_owned(),
        version: known.version.0,
        ends_in_ms: known.until.map(|until| until.since(known.now).0),
        policy: known.policy_name.clone(),
        policy_revision: format!("{:016x}", record.rules.revision),
        policy_is_current: known.policy_is_current,
        attempts: attempts.collect(),
        outcome,
        evidence: record
            .evidence
            .iter()
            .map(|kept| EvidenceWire {
                attempt: kept.attempt,
                at: kept.wall.0,
                outcome: OutcomeWire::outline(&kept.outcome),
            })
            .collect(),
        resolved: record.resolved.as_ref().map(|resolved| ResolvedWire {
            actor: resolved.actor.to_string(),
            reason: resolved.reason.to_string(),
            at: resolved.wall.0,
        }),
        downstream_key: known.downstream_key.clone(),
        recent: known.recent.iter().map(|logged| events::wire(logged, caller.sees_all)).collect(),
        story: story(known),
        advice: words::advice(known.advice).to_owned(),
        next: words::advice_in_words(known.advice).to_owned(),
    })
}

/// What happened, one sentence each.
fn story(known: &Explanation) -> Vec<String> {
    let Some(record) = &known.record else { return Vec::new() };
    let mut story = Vec::new();
    let attempt = record.attempt.number;
    let begun = words::time(record.attempt.begun_wall.0);
    story.push(format!("Attempt {attempt} was begun at {begun} by {}.", record.attempt.owner));
    story.push(match &record.state {
        State::Pending(pending) if pending.started => "It is running; its effect may be under way.".to_owned(),
        State::Pending(_) => "It was admitted, but its effect has not started.".to_owned(),
        State::Open(open) if open.failure.is_some() => {
            "It failed in a way that may be tried again; the next call with this key runs it.".to_owned()
        }
        State::Open(_) => "It did not come to an end; the next call with this key runs it.".to_owned(),
        State::InDoubt(_) => format!(
            "Its owner fell silent or could not say how it ended. Its effect is {}, so it is not run again by itself.",
            record.effect
        ),
        State::Committed(done) => {
            format!(
                "It succeeded at {} and the answer is kept for {}.",
                words::time(done.decided_wall.0),
                done.retention
            )
        }
        State::Rejected(done) => format!(
            "It failed for good at {} and that answer is kept for {}.",
            words::time(done.decided_wall.0),
            done.retention
        ),
        State::Tombstone(stone) => {
            format!("It was decided at {}; the answer itself is no longer kept.", words::time(stone.decided_wall.0))
        }
    });
    if let Some(resolved) = &record.resolved {
        let at = words::time(resolved.wall.0);
        story.push(format!("{} decided it at {at}, because: {}", resolved.actor, resolved.reason));
    }
    if !record.evidence.is_empty() {
        let count = record.evidence.len();
        story.push(format!(
            "{count} outcome(s) came from an attempt whose token no longer counted. They were refused and kept as evidence: \
             if they succeeded, the effect may have happened more often than this record says."
        ));
    }
    for logged in known.recent.iter().rev().take(8).rev() {
        let at = words::time(logged.wall.0);
        story.push(format!("{at}: {}", words::cause_in_words(logged.event.cause)));
    }
    story
}
