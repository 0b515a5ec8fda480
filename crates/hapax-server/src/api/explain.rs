use data_encoding::HEXLOWER;
use hapax_core::{
    Id, Record, State,
    identity::{KeySource, Surface},
    lease_end,
    record::End,
};
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
        (None, true) => {
            let detail = "name the `tenant` (on the command line --tenant): a key means nothing without it";
            return Err(Problem::bad_request(detail));
        }
    }
    let id = call_of(app, &caller, &wanted.surface, &wanted.scope, &wanted.key)?.id()?;
    // Who names itself as a side of the task asks about its own.
    let me = &*caller.identity.principal;
    let is_own = crate::a2a::is_ours(&wanted.surface)
        && wanted.scope.iter().any(|part| ["sender", "recipient"].contains(&&*part.label) && part.value == *me);
    let explanation = app.engine.explain(&id).await?;
    let told = wire(app, &caller, &explanation, is_own).ok_or_else(Problem::unknown_operation)?;
    Ok(answer(&told))
}

/// What is known about an operation that this caller may see.
pub(crate) async fn explained(app: &App, caller: &Caller, id: &Id) -> Result<ExplanationWire, Problem> {
    let explanation = app.engine.explain(id).await?;
    wire(app, caller, &explanation, false).ok_or_else(Problem::unknown_operation)
}

/// `is_own`: the caller has shown that it is one of those the operation is about.
fn wire(app: &App, caller: &Caller, known: &Explanation, is_own: bool) -> Option<ExplanationWire> {
    let sees = |about: &hapax_core::record::About| is_own || caller.sees(&about.tenant, &about.surface);
    let record = known.record.as_ref().filter(|record| sees(&record.about))?;
    let latest = &record.attempt;
    let attempts = record.past.iter().map(|past| AttemptWire {
        number: past.number,
        owner: past.owner.to_string(),
        begun_at: past.begun_wall.0,
        lease_ms: past.lease.map(|lease| lease.0),
        lease_left_ms: None,
        end: words::end(past.end).to_owned(),
    });
    let lease = match &record.state {
        State::Pending(pending) => Some(&pending.lease),
        State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => None,
    };
    let attempts = attempts.chain([AttemptWire {
        number: latest.number,
        owner: latest.owner.to_string(),
        begun_at: latest.begun_wall.0,
        lease_ms: latest.lease.or(lease.map(|lease| lease.length)).map(|length| length.0),
        lease_left_ms: lease.map(|lease| lease_end(lease).since(known.now).0),
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
        State::InDoubt(_) => {
            let beside = record.earlier_doubt.as_ref().and_then(|doubt| doubt.failure.as_ref());
            beside.map(OutcomeWire::outline)
        }
        State::Pending(_) => None,
    };
    Some(ExplanationWire {
        operation: known.id.to_string(),
        state: words::state(known.state).to_owned(),
        surface: record.about.surface.to_string(),
        tenant: caller.sees_all.then(|| record.about.tenant.to_string()),
        key_hash: HEXLOWER.encode(&record.about.key_hash),
        key_from: key_from(app, record),
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
        given_from_memory: known.given_from_memory,
        story: story(known),
        advice: words::advice(known.advice).to_owned(),
        next: words::advice_in_words(known.advice).to_owned(),
    })
}

const fn came_to_nothing(end: End) -> bool {
    match end {
        End::Failed | End::Released | End::TakenOver | End::Lapsed { started: false } => true,
        End::Running
        | End::Completed
        | End::Rejected
        | End::FailedUnknown
        | End::Lapsed { started: true }
        | End::Resolved => false,
    }
}

/// Where the key came from: what its surface makes keys of, or where its policy looks for them. The key itself is not stored,
/// so of a key that may come from several places nobody can say which it was.
fn key_from(app: &App, record: &Record) -> String {
    let made = match &*record.about.surface {
        "activity" => Some("made from the run, the node, its ordinal and the provider"),
        "tool" => Some("made from the tool, the business key and the group of the turn"),
        "beat" => Some("made from the session and the messages of the beat, in any order"),
        "compensation" => Some("made from the plan and the place of the step in it"),
        "bus" => Some("the message's intent id, or its stream and sequence where it has none"),
        "a2a" => Some("given by the sender of the task"),
        _ => None,
    };
    let sources =
        Surface::new(&record.about.surface).ok().and_then(|surface| app.engine.policy(&surface).key.source.clone());
    match (made, sources) {
        (Some(made), _) => made.to_owned(),
        (None, None) => "given by the caller".to_owned(),
        (None, Some(sources)) => {
            let places: Vec<String> = sources.iter().map(place).collect();
            format!("the first of: {}", places.join(", "))
        }
    }
}

fn place(source: &KeySource) -> String {
    match source {
        KeySource::Header(name) => format!("the header {name}"),
        KeySource::Query(name) => format!("the query parameter {name}"),
        KeySource::JsonPointer(pointer) => format!("the body at {pointer}"),
        KeySource::Template(_) => "a template filled in from the body".to_owned(),
        KeySource::Automatic => "the request itself".to_owned(),
        // The core may learn more places than this server has words for.
        _ => "elsewhere".to_owned(),
    }
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
        State::InDoubt(_) if record.earlier_doubt.is_some() && came_to_nothing(record.attempt.end) => {
            "It came to nothing itself.".to_owned()
        }
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
    if let Some(earlier) = &record.earlier_doubt {
        story.push(format!(
            "Nobody knows how attempt {} ended. A later one was let run beside that doubt because the provider recognised the \
             key; only a final answer or a decision settles it.",
            earlier.attempt
        ));
    }
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
    match known.given_from_memory {
        0 => {}
        1 => story.push("Since then this process has given the recorded answer again once, from memory.".to_owned()),
        times => story.push(format!(
            "Since then this process has given the recorded answer again {times} times, from memory; nothing ran."
        )),
    }
    for logged in known.recent.iter().rev().take(8).rev() {
        let at = words::time(logged.wall.0);
        story.push(format!("{at}: {}", words::cause_in_words(logged.event.cause)));
    }
    story
}
