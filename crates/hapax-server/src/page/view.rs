//! What the page shows.

use std::fmt::Write as _;

use hapax_core::{Cause, StateName};
use hapax_engine::Logged;
use hapax_store::Cursor;

use super::html::escaped;
use crate::{
    api::{self, Filter},
    app::{App, Caller},
    auth::Auth,
    problem::Problem,
    wire::{ExplanationWire, OperationPage, OperationRow},
    words,
};

const RECENT: usize = 40;
const STUCK: usize = 20;

/// `after`: where the list of doubts goes on.
pub(super) async fn live(app: &App, caller: &Caller, after: Option<Cursor>) -> Result<String, Problem> {
    let later = after.is_some();
    let doubts = Filter { surface: None, state: Some(StateName::InDoubt), limit: STUCK, after };
    let doubts = api::rows(app, caller, doubts).await?;
    let pending = api::rows(app, caller, api::pending(STUCK)).await?;
    let events = app.engine.events();
    let events =
        if caller.sees_all { events.after(0) } else { events.after_of(caller.tenant(), 0) }.unwrap_or_default();
    let mine: Vec<&Logged> =
        events.iter().filter(|logged| caller.sees(&logged.about.tenant, &logged.about.surface)).collect();
    let mut page = counts(app, caller, &mine, &doubts, &pending);
    page.push_str("<section><h2>What is stuck</h2>");
    match (doubts.items.is_empty(), &doubts.next) {
        (true, None) if later => page.push_str("<p>Nothing more. <a href=\"/\">From the beginning</a></p>"),
        (true, None) => page.push_str("<p class=\"good\">Nothing: the end of everything is known.</p>"),
        // Each look is bounded, and others' operations are among what it looks at.
        (true, Some(_)) => page.push_str("<p>Nothing among what was looked at, which is not everything.</p>"),
        (false, _) => {
            page.push_str("<p>Nobody knows whether these happened. Look at one to decide it.</p>");
            table(&mut page, caller, &doubts.items);
        }
    }
    if let Some(next) = &doubts.next {
        let _infallible = write!(page, "<p><a class=\"more\" href=\"/?after={next}\">Look further</a></p>");
    }
    page.push_str("</section><section><h2>Running</h2>");
    match (pending.items.is_empty(), &pending.next) {
        (true, None) => page.push_str("<p>Nothing is running.</p>"),
        (true, Some(_)) => page.push_str("<p>Nothing among what was looked at, which is not everything.</p>"),
        (false, _) => table(&mut page, caller, &pending.items),
    }
    page.push_str("</section>");
    page.push_str(&crate::a2a::overview(app, caller).await);
    page.push_str("<section><h2>Recent decisions</h2>");
    recent(&mut page, caller, &mine);
    page.push_str("</section>");
    Ok(page)
}

fn counts(app: &App, caller: &Caller, mine: &[&Logged], doubts: &OperationPage, pending: &OperationPage) -> String {
    let process_wide = caller.sees_all || matches!(&**app.auth.read(), Auth::None);
    let of = |causes: &[Cause]| mine.iter().filter(|logged| causes.contains(&logged.event.cause)).count() as u64;
    // The counters of the process are everybody's together; a tenant sees what its own events say.
    let (executed, replayed, refused, note) = if process_wide {
        let stats = app.engine.stats();
        let refused = stats.refused + stats.mismatched + stats.in_flight + stats.window_closed;
        (stats.executed, stats.replayed, refused, "since the start")
    } else {
        let refused = of(&[Cause::Refused, Cause::Mismatch, Cause::InFlight, Cause::WindowClosed]);
        (of(&[Cause::Begin, Cause::TakeOver]), of(&[Cause::Replay]), refused, "lately")
    };
    let more = |page: &OperationPage| format!("{}{}", page.items.len(), if page.next.is_some() { "+" } else { "" });
    let how_bad = match (doubts.items.is_empty(), &doubts.next) {
        (false, _) => "bad",
        (true, None) => "good",
        (true, Some(_)) => "",
    };
    let mut page = format!("<section class=\"counts\" aria-label=\"Counts {note}\">");
    for (name, value, class) in [
        ("run", executed.to_string(), ""),
        ("replayed", replayed.to_string(), ""),
        ("turned away", refused.to_string(), ""),
        ("running", more(pending), ""),
        ("in doubt", more(doubts), how_bad),
    ] {
        let _infallible = write!(page, "<div class=\"count {class}\"><b>{value}</b><span>{name}</span></div>");
    }
    page.push_str("</section>");
    page
}

fn table(page: &mut String, caller: &Caller, rows: &[OperationRow]) {
    page.push_str("<table><thead><tr><th>operation</th><th>surface</th>");
    if caller.sees_all {
        page.push_str("<th>tenant</th>");
    }
    page.push_str("<th>effect</th><th>attempt</th><th>owner</th><th>begun</th></tr></thead><tbody>");
    for row in rows {
        let _infallible = write!(page, "<tr><td>{}</td><td>{}</td>", link(&row.operation), escaped(&row.surface));
        if let Some(tenant) = &row.tenant {
            let _infallible = write!(page, "<td>{}</td>", escaped(tenant));
        }
        let _infallible = write!(
            page,
            "<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            row.effect,
            row.attempt,
            escaped(&row.owner),
            words::time(row.begun_at),
        );
    }
    page.push_str("</tbody></table>");
}

fn recent(page: &mut String, caller: &Caller, mine: &[&Logged]) {
    if mine.is_empty() {
        page.push_str("<p>Nothing has happened since the start.</p>");
        return;
    }
    page.push_str("<table><thead><tr><th>when</th><th>what</th><th>surface</th>");
    if caller.sees_all {
        page.push_str("<th>tenant</th>");
    }
    page.push_str("<th>operation</th></tr></thead><tbody>");
    for logged in mine.iter().rev().take(RECENT) {
        let _infallible = write!(
            page,
            "<tr><td>{}</td><td><i class=\"c {cause}\">{cause}</i> {}</td><td>{}</td>",
            words::time(logged.wall.0),
            escaped(words::cause_in_words(logged.event.cause)),
            escaped(&logged.about.surface),
            cause = words::cause(logged.event.cause),
        );
        if caller.sees_all {
            let _infallible = write!(page, "<td>{}</td>", escaped(&logged.about.tenant));
        }
        let _infallible = write!(page, "<td>{}</td></tr>", link(&logged.id.to_string()));
    }
    page.push_str("</tbody></table>");
}

fn link(id: &str) -> String {
    let short = id.get(..12).unwrap_or(id);
    format!("<a class=\"id\" href=\"/page/operation?id={id}\" title=\"{id}\">{short}…</a>")
}

pub(super) fn operation(caller: &Caller, known: &ExplanationWire, csrf: &str) -> String {
    let mut page = format!(
        "<section><h1>{} <span class=\"state {state}\">{state}</span></h1><p class=\"id\">{}</p><p class=\"next\">{}</p>",
        escaped(&known.surface),
        known.operation,
        escaped(&known.next),
        state = known.state,
    );
    page.push_str("<h2>What happened</h2><ol class=\"story\">");
    for sentence in &known.story {
        let _infallible = write!(page, "<li>{}</li>", escaped(sentence));
    }
    page.push_str("</ol><h2>Attempts</h2><table><thead><tr><th>number</th><th>owner</th><th>begun</th><th>lease</th><th>end</th></tr></thead><tbody>");
    for attempt in &known.attempts {
        let lease =
            attempt.lease_ms.map_or_else(|| "-".to_owned(), |lease| format!("{}\u{a0}s", lease.div_ceil(1_000)));
        let _infallible = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{lease}</td><td>{}</td></tr>",
            attempt.number,
            escaped(&attempt.owner),
            words::time(attempt.begun_at),
            escaped(&attempt.end)
        );
    }
    page.push_str("</tbody></table><h2>Facts</h2><dl>");
    let mut fact = |name: &str, value: &str| {
        let _infallible = write!(page, "<dt>{name}</dt><dd>{}</dd>", escaped(value));
    };
    if let Some(tenant) = &known.tenant {
        fact("tenant", tenant);
    }
    fact("key, hashed", &known.key_hash);
    fact("key from", &known.key_from);
    fact("id from", &known.derived);
    fact("effect", &known.effect);
    let current = if known.policy_is_current { "in force" } else { "changed since" };
    fact("policy", &format!("{}, revision {} ({current})", known.policy, known.policy_revision));
    fact("downstream key", &known.downstream_key);
    fact("version", &known.version.to_string());
    page.push_str("</dl></section>");
    let can = caller.identity.can(crate::auth::Capability::Resolve);
    if can && matches!(known.state.as_str(), "in_doubt" | "pending") {
        page.push_str(&form(known, csrf));
    }
    page
}

fn form(known: &ExplanationWire, csrf: &str) -> String {
    format!(
        "<section><h2>Decide it</h2><p>Whatever you choose is final for this attempt and stands in the audit log.</p>\
         <form class=\"decide\" action=\"/page/resolve\" method=\"post\">\
         <input type=\"hidden\" name=\"csrf\" value=\"{csrf}\"><input type=\"hidden\" name=\"id\" value=\"{}\">\
         <input type=\"hidden\" name=\"version\" value=\"{}\">\
         <label><input type=\"radio\" name=\"resolution\" value=\"committed\" required> It happened</label>\
         <label><input type=\"radio\" name=\"resolution\" value=\"rejected\"> It failed, and must not be tried again</label>\
         <label><input type=\"radio\" name=\"resolution\" value=\"open\"> Let it run again; I answer for it</label>\
         <label>Answer for later callers <input name=\"answer\" size=\"60\"></label>\
         <label>Reason <input name=\"reason\" size=\"60\" maxlength=\"1024\" required></label>\
         <button>Decide</button></form></section>",
        known.operation, known.version
    )
}
