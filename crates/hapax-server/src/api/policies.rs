use hapax_engine::Policies;
use serde_json::json as value;

use super::resolve::note;
use crate::{
    app::{App, Asked},
    audit::Action,
    http::{Reply, answer, text},
    log::Level,
    problem::Problem,
    wire::{PolicyList, PolicyWire},
};

pub(crate) fn policies(app: &App) -> Reply {
    answer(&listed(&app.engine.policies()))
}

fn listed(policies: &Policies) -> PolicyList {
    PolicyList {
        standard: PolicyWire::of(policies.standard()),
        surfaces: policies.iter().map(|(surface, policy)| (surface.to_string(), PolicyWire::of(policy))).collect(),
    }
}

/// Puts a policy file in force. Saying it twice changes nothing, so it needs no key.
pub(crate) async fn set_policies(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let file = text(asked.body, &app.limits).await?;
    let (policies, warnings) = Policies::from_toml(&file).map_err(|error| Problem::bad_request(error.to_string()))?;
    let actor = asked.caller.identity.actor();
    let revisions: Vec<String> = policies
        .iter()
        .map(|(surface, policy)| format!("{surface} {:016x}", policy.revision))
        .chain([format!("standard {:016x}", policies.standard().revision)])
        .take(256)
        .collect();
    note(app, &actor, Action::PolicyChange, "", value!({ "revisions": revisions })).await?;
    app.engine.reload(policies);
    app.say(Level::Info, "policies_changed", &[("actor", &actor)]);
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    Ok(answer(&value!({ "warnings": warnings })))
}
