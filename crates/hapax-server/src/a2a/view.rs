//! What one may look at, as data and on the page.

use std::fmt::Write as _;

use hapax_core::{Millis, task::SURFACE};
use hapax_queue::{Filter, Queue, Status, TaskStateName};
use hapax_store::Cursor;

use super::{
    problem, sees, tenant, visible,
    wire::{StatusPageWire, StatusWire},
};
use crate::{
    api::{closed, opened},
    app::{App, Asked, Caller},
    http::{Query, Reply, answer},
    page::escaped,
    problem::Problem,
};

const USUAL_PAGE: usize = 50;
const ON_THE_PAGE: usize = 20;
const LONGEST_NAME: usize = 255;

pub(super) async fn task(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let status = visible(app, &asked.caller, asked.query.get("id").unwrap_or_default()).await?;
    Ok(answer(&StatusWire::of(&status)))
}

pub(super) async fn tasks(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let known = ["state", "kind", "peer", "min_lease_age_ms", "overdue", "cursor", "limit"];
    if asked.query.odd(&known) {
        return Err(Problem::bad_request("a parameter is not known here, or is given twice"));
    }
    let (filter, limit, after) = wanted(app, &asked.caller, &asked.query)?;
    let queue = app.queue.get(app).await?;
    let (items, next) = mine(queue, &asked.caller, &filter, after, limit).await?;
    let next = next.and_then(|cursor| closed(app, &asked.caller, &cursor));
    Ok(answer(&StatusPageWire { items: items.iter().map(StatusWire::of).collect(), next }))
}

/// A page of what the caller sees. Each call looks through a bounded number of tasks, whoever's they are.
async fn mine(
    queue: &Queue,
    caller: &Caller,
    filter: &Filter,
    after: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<Status>, Option<Cursor>), Problem> {
    let page = queue.status_for(tenant(caller), filter, after.as_ref(), limit, |status| sees(caller, status)).await;
    let page = page.map_err(|error| problem(&error))?;
    Ok((page.items, page.next))
}

fn wanted(app: &App, caller: &Caller, query: &Query) -> Result<(Filter, usize, Option<Cursor>), Problem> {
    let state = match query.get("state") {
        None => None,
        Some(name) => Some(TaskStateName::parse(name).ok_or_else(|| {
            Problem::bad_request("`state` is queued, joined, leased, stale, result_pending, delivered or compacted")
        })?),
    };
    let number = |name: &'static str| match query.get(name).map(str::parse::<u64>) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err(Problem::bad_request(format!("`{name}` is a whole number"))),
    };
    let limit = usize::try_from(number("limit")?.unwrap_or(USUAL_PAGE as u64)).unwrap_or(usize::MAX);
    if !(1..=app.limits.page).contains(&limit) {
        return Err(Problem::bad_request(format!("`limit` is from 1 to {}", app.limits.page)));
    }
    let after = query.get("cursor").map(|text| opened(app, caller, text)).transpose()?;
    for name in ["kind", "peer"] {
        if query.get(name).is_some_and(|text| text.is_empty() || text.len() > LONGEST_NAME) {
            return Err(Problem::bad_request(format!("`{name}` has 1 to {LONGEST_NAME} bytes")));
        }
    }
    let filter = Filter {
        state,
        kind: query.get("kind").map(str::to_owned),
        peer: query.get("peer").map(str::to_owned),
        min_lease_age: number("min_lease_age_ms")?.map(Millis),
        overdue: match query.get("overdue") {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(Problem::bad_request("`overdue` is true or false")),
        },
    };
    Ok((filter, limit, after))
}

/// The queue on the operator's page: what is in flight, and what waits. Empty where nobody uses it.
pub(crate) async fn overview(app: &App, caller: &Caller) -> String {
    // A key that may not use the queue is not shown it.
    if !caller.identity.may_use(SURFACE) {
        return String::new();
    }
    let Ok(queue) = app.queue.get(app).await else { return String::new() };
    let (mut tasks, mut next) = (Vec::new(), false);
    // Of each its own share: a hundred leases must not hide that nobody takes what waits.
    for state in [TaskStateName::Stale, TaskStateName::Leased, TaskStateName::Queued] {
        let filter = Filter { state: Some(state), ..Filter::default() };
        let Ok((found, more)) = mine(queue, caller, &filter, None, ON_THE_PAGE).await else { return String::new() };
        next |= found.len() == ON_THE_PAGE && more.is_some();
        tasks.extend(found);
    }
    if tasks.is_empty() {
        return String::new();
    }
    let mut page = String::from(
        "<section><h2>Tasks between agents</h2><table><thead><tr><th>Task</th><th>Kind</th><th>From</th><th>To</th>\
         <th>State</th><th>Attempt</th></tr></thead><tbody>",
    );
    for status in &tasks {
        let order = &status.task.order;
        let mark = if status.state == TaskStateName::Stale { " class=\"bad\"" } else { "" };
        let _infallible = write!(
            page,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td><td{mark}>{}{}</td><td>{}</td></tr>",
            order.id,
            escaped(&order.kind),
            escaped(&order.sender.display),
            escaped(&order.recipient.display),
            status.state.name(),
            if status.overdue { ", overdue" } else { "" },
            status.task.attempt,
        );
    }
    page.push_str("</tbody></table>");
    if next {
        page.push_str("<p>And more: <code>hapax a2a status</code>.</p>");
    }
    page.push_str("</section>");
    page
}
