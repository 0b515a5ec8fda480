use serde_json::json as value;

use super::{problem, tenant, wire::ImportedWire};
use crate::{
    api::note,
    app::{App, Asked},
    audit::Action,
    http::{Reply, answer, plain, text},
    problem::Problem,
};

/// Behind the administrators' door only: it holds every payload of the tenant.
pub(super) async fn export(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let queue = app.queue.get(app).await?;
    let mut log = String::new();
    let written = queue.export(tenant(&asked.caller), |line| {
        log.push_str(&serde_json::to_string(line)?);
        log.push('\n');
        Ok(())
    });
    let lines = written.await.map_err(|error| problem(&error))?;
    lines.map_err(|_| Problem::bad_request("a line could not be written"))?;
    Ok(plain("application/x-ndjson", log))
}

pub(super) async fn import(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let log = text(asked.body, &app.limits).await?;
    let queue = app.queue.get(app).await?;
    let actor = asked.caller.identity.actor();
    note(app, &actor, Action::Import, "a2a", value!({ "tenant": tenant(&asked.caller).as_str() })).await?;
    let report = queue.import(tenant(&asked.caller), &log).await.map_err(|error| problem(&error))?;
    Ok(answer(&ImportedWire {
        tasks: report.tasks,
        cached: report.cached,
        known: report.known,
        torn_line: report.torn,
    }))
}
