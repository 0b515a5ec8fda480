use http::{HeaderValue, header};
use serde_json::json as value;

use super::{problem, tenant, wire::ImportedWire};
use crate::{
    api::{closed, note, opened},
    app::{App, Asked},
    audit::Action,
    http::{Reply, answer, plain, text},
    problem::{Problem, store_down},
};

/// A page ends with the first task beyond so many bytes.
const PAGE_BYTES: usize = 1024 * 1024;

/// Behind the administrators' door only: it holds every payload of the tenant. In pages, so that no log is too long for it;
/// where there is more, the header `link` says where.
pub(super) async fn export(app: &App, asked: Asked) -> Result<Reply, Problem> {
    if asked.query.odd(&["cursor"]) {
        return Err(Problem::bad_request("the only parameter is `cursor`, and it is given once"));
    }
    let queue = app.queue.get(app).await?;
    let mut after = asked.query.get("cursor").map(|text| opened(app, &asked.caller, text)).transpose()?;
    let mut log = String::new();
    let next = loop {
        let (lines, next) =
            queue.export_page(tenant(&asked.caller), after.as_ref()).await.map_err(|error| problem(&error))?;
        for line in &lines {
            log.push_str(
                &serde_json::to_string(line).map_err(|_| Problem::bad_request("a line could not be written"))?,
            );
            log.push('\n');
        }
        match next {
            Some(next) if log.len() < PAGE_BYTES => after = Some(next),
            next => break next,
        }
    };
    let mut reply = plain("application/x-ndjson", log);
    if let Some(next) = next {
        // Without a place to go on, the page would look like the end.
        let next =
            closed(app, &asked.caller, &next).ok_or_else(|| store_down("a place in the log that cannot be sealed"))?;
        let link = HeaderValue::from_str(&format!("</v1/a2a/export?cursor={next}>; rel=\"next\""));
        reply.headers_mut().insert(header::LINK, link.map_err(store_down)?);
    }
    Ok(reply)
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
