use std::sync::Arc;

use hapax_core::{
    Id, OutcomeClass, Version,
    command::{Posture, Resolution, Resolve},
};
use hapax_engine::Stepped;
use serde_json::json as value;

use super::step::{outcome, told};
use crate::{
    app::{App, Asked, Caller},
    audit::Action,
    http::{Reply, json},
    log::Level,
    problem::{Problem, store_down},
    records,
    wire::{OutcomeWire, PostureWire, ResolutionWire, ResolveRequest},
};

const MOST_REASON: usize = 1024;

pub(crate) async fn resolve(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let Some(id) = asked.id else { return Err(Problem::unknown_operation()) };
    let wanted: ResolveRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let stepped = decide(app, &asked.caller, id, wanted).await?;
    told(&id, stepped, false)
}

/// Decides a doubt: first the row in the audit log, then the decision.
pub(crate) async fn decide(app: &App, caller: &Caller, id: Id, wanted: ResolveRequest) -> Result<Stepped, Problem> {
    if wanted.reason.trim().is_empty() || wanted.reason.len() > MOST_REASON {
        return Err(Problem::bad_request("`reason` has from 1 to 1024 bytes; say why"));
    }
    let (resolution, name) = resolution(wanted.resolution, wanted.outcome, wanted.posture)?;
    let seen = records::read(&app.engine, &id).await?;
    let sees = |seen: &records::Seen| caller.sees(&seen.record.about.tenant, &seen.record.about.surface);
    let seen = seen.filter(sees).ok_or_else(Problem::unknown_operation)?;
    let actor = caller.identity.actor();
    let detail = value!({
        "resolution": name,
        "posture": wanted.posture.map(posture_name),
        "version": wanted.version,
        "state": crate::words::state(seen.record.state.name()),
        "tenant": &*seen.record.about.tenant,
        "surface": &*seen.record.about.surface,
        "reason": wanted.reason,
    });
    note(app, &actor, Action::Resolve, &id.to_string(), detail).await?;
    let command = Resolve {
        version: Version(wanted.version),
        resolution,
        actor: actor.as_str().into(),
        reason: wanted.reason.as_str().into(),
    };
    let stepped = app.engine.resolve(&id, command).await?;
    if stepped.is_done() {
        app.say(Level::Info, "resolved", &[("operation", &id.to_string()), ("as", name), ("actor", &actor)]);
    } else {
        note(app, &actor, Action::ResolveRefused, &id.to_string(), value!({ "resolution": name })).await?;
    }
    Ok(stepped)
}

/// A row in the audit log, on disk before anything is done.
pub(crate) async fn note(
    app: &App,
    actor: &str,
    action: Action,
    subject: &str,
    detail: serde_json::Value,
) -> Result<(), Problem> {
    let (audit, actor, subject) = (Arc::clone(&app.audit), actor.to_owned(), subject.to_owned());
    let written = tokio::task::spawn_blocking(move || audit.append(&actor, action, &subject, detail)).await;
    match written {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            app.say(Level::Error, "audit_failed", &[("error", &error.to_string())]);
            // What cannot be written down is not done.
            Err(store_down(error))
        }
        Err(error) => Err(store_down(error)),
    }
}

fn resolution(
    wanted: ResolutionWire,
    wire: Option<OutcomeWire>,
    posture: Option<PostureWire>,
) -> Result<(Resolution, &'static str), Problem> {
    match (wanted, posture) {
        (ResolutionWire::Committed, None) => {
            let outcome = outcome(wire.unwrap_or_default(), OutcomeClass::Success, OutcomeClass::completes)?;
            Ok((Resolution::Committed(outcome), "committed"))
        }
        (ResolutionWire::Rejected, None) => {
            let outcome = outcome(wire.unwrap_or_default(), OutcomeClass::FinalFailure, OutcomeClass::rejects)?;
            Ok((Resolution::Rejected(outcome), "rejected"))
        }
        (ResolutionWire::Open, Some(posture)) if wire.is_none() => {
            let posture = match posture {
                PostureWire::Idempotent => Posture::Idempotent,
                PostureWire::OperatorAccepted => Posture::OperatorAccepted,
                PostureWire::Prevented => Posture::Prevented,
                PostureWire::OwnerGone => Posture::OwnerGone,
            };
            Ok((Resolution::Open(posture), "open"))
        }
        (ResolutionWire::Open, Some(_)) => Err(Problem::bad_request("`open` takes no `outcome`: it runs again")),
        (ResolutionWire::Open, None) => {
            Err(Problem::bad_request("`open` needs a `posture`: why is it safe to run it again?"))
        }
        (ResolutionWire::Committed | ResolutionWire::Rejected, Some(_)) => {
            Err(Problem::bad_request("`posture` belongs to `open` only"))
        }
    }
}

const fn posture_name(posture: PostureWire) -> &'static str {
    match posture {
        PostureWire::Idempotent => "idempotent",
        PostureWire::OperatorAccepted => "operator_accepted",
        PostureWire::Prevented => "prevented",
        PostureWire::OwnerGone => "owner_gone",
    }
}
