use hapax_engine::Policies;
use serde_json::json as value;

use super::resolve::note;
use crate::{
    app::{App, Asked, Caller},
    audit::Action,
    http::{Reply, answer, text},
    log::Level,
    page::csrf::came_from_here,
    problem::Problem,
    wire::{PolicyList, PolicyWire},
};

pub(crate) fn policies(app: &App, caller: &Caller) -> Reply {
    let policies = app.engine.policies();
    let theirs = policies.iter().filter(|(surface, _)| caller.identity.may_use(surface.as_str()));
    answer(&PolicyList {
        standard: PolicyWire::of(policies.standard()),
        surfaces: theirs.map(|(surface, policy)| (surface.to_string(), PolicyWire::of(policy))).collect(),
    })
}

/// What an audit row says of policies: names and revisions, as many as fit.
pub(crate) fn revisions(policies: &Policies) -> serde_json::Value {
    let standard = format!("standard {:016x}", policies.standard().revision);
    let own = policies.iter().map(|(surface, policy)| format!("{surface} {:016x}", policy.revision));
    let all: Vec<String> = [standard].into_iter().chain(own).take(256).collect();
    value!({ "revisions": all })
}

/// Puts a policy file in force, until the process reads its own again. Saying it twice changes nothing, so it needs no key.
pub(crate) async fn set_policies(app: &App, asked: Asked) -> Result<Reply, Problem> {
    if app.policies_by_file {
        return Err(Problem::forbidden(
            "here policies and routes come from one file: change that, and say `hapax reload`",
        ));
    }
    let file = text(asked.body, &app.limits).await?;
    let (policies, warnings) = Policies::from_toml(&file).map_err(|error| Problem::bad_request(error.to_string()))?;
    // A task that is leased under the old policies must not run again by itself under the new ones.
    hapax_queue::Queue::check(&policies).map_err(|error| Problem::bad_request(error.to_string()))?;
    let actor = asked.caller.identity.actor();
    note(app, &actor, Action::PolicyChange, "", revisions(&policies)).await?;
    app.engine.reload(policies);
    app.say(Level::Info, "policies_changed", &[("actor", &actor)]);
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    Ok(answer(&value!({ "warnings": warnings, "in_force_until": "the next start or reload" })))
}

/// Has the process read its own files again: all of it is in force afterwards, or nothing of it.
pub(crate) async fn reload(app: &App, asked: &Asked) -> Result<Reply, Problem> {
    // It takes no body, so any page could have a browser send it.
    came_from_here(&asked.headers)?;
    let Some(reloader) = &app.reloader else {
        return Err(Problem::forbidden("this process was given no files that it could read again"));
    };
    match reloader.ask(asked.caller.identity.actor()).await {
        Ok(waiting) => Ok(answer(&value!({ "reloaded": true, "waits_for_restart": waiting }))),
        Err(why) => Err(Problem::bad_request(format!("not reloaded, all stays as it was: {why}"))),
    }
}
