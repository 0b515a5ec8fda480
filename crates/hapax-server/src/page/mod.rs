//! The operator's page: rendered here, usable without JavaScript, live with it.

pub(crate) mod csrf;
mod html;
mod view;

pub(crate) use html::escaped;

use http::StatusCode;

use crate::{
    api,
    app::{App, Asked, Caller},
    http::{Query, Reply, html as page, plain, text},
    problem::Problem,
    wire::{OutcomeWire, PostureWire, ResolutionWire, ResolveRequest},
};

pub(crate) fn style() -> Reply {
    plain("text/css; charset=utf-8", include_str!("style.css"))
}

pub(crate) fn script() -> Reply {
    plain("text/javascript; charset=utf-8", include_str!("live.js"))
}

pub(crate) async fn show(app: &App, asked: &Asked) -> Result<Reply, Problem> {
    let (caller, live) = (&asked.caller, view::live(app, &asked.caller, from(app, asked)?).await?);
    Ok(page(StatusCode::OK, html::layout("Hapax", caller, &format!("<div id=\"live\">{live}</div>"))))
}

/// Where the list of doubts goes on, if the page before did not come to its end.
fn from(app: &App, asked: &Asked) -> Result<Option<hapax_store::Cursor>, Problem> {
    asked.query.get("after").map(|text| api::opened(app, &asked.caller, text)).transpose()
}

/// A refusal, for people.
pub(crate) fn refused(caller: &Caller, problem: &Problem) -> Reply {
    let body = format!(
        "<p class=\"bad\">{}: {} [{}]</p><p><a href=\"/\">To the beginning</a></p>",
        html::escaped(problem.title),
        html::escaped(&problem.detail),
        problem.code
    );
    page(problem.status, html::layout("Not done", caller, &body))
}

/// The part that changes, for the script.
pub(crate) async fn fragment(app: &App, asked: &Asked) -> Result<Reply, Problem> {
    Ok(page(StatusCode::OK, view::live(app, &asked.caller, from(app, asked)?).await?))
}

pub(crate) async fn operation(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let caller = asked.caller;
    let wanted = asked.query.get("id").and_then(|text| hapax_core::Id::parse(text.trim()));
    let found = match wanted {
        Some(id) => api::explained(app, &caller, &id).await,
        None => Err(Problem::unknown_operation()),
    };
    match found {
        Ok(known) => {
            let token = csrf::token(app, &caller);
            let body = view::operation(&caller, &known, &token);
            Ok(page(StatusCode::OK, html::layout("One operation", &caller, &body)))
        }
        Err(problem) => {
            let body = format!("<p class=\"bad\">{}</p>", html::escaped(&problem.detail));
            Ok(page(problem.status, html::layout("Not found", &caller, &body)))
        }
    }
}

/// The form on the page of one operation.
pub(crate) async fn resolve(app: &App, asked: Asked) -> Result<Reply, Problem> {
    csrf::came_from_here(&asked.headers)?;
    let body = text(asked.body, &app.limits).await?;
    let Some(form) = Query::parse(Some(&body)) else { return Err(Problem::bad_request("the form cannot be read")) };
    let field = |name: &str| form.get(name).unwrap_or_default();
    csrf::check(app, &asked.caller, field("csrf"))?;
    let id = hapax_core::Id::parse(field("id")).ok_or_else(Problem::unknown_operation)?;
    let version = field("version").parse().map_err(|_| Problem::bad_request("`version` is not a number"))?;
    let outcome = || OutcomeWire {
        body: (!field("answer").is_empty()).then(|| field("answer").to_owned()),
        ..OutcomeWire::default()
    };
    let (resolution, outcome, posture) = match field("resolution") {
        "committed" => (ResolutionWire::Committed, Some(outcome()), None),
        "rejected" => (ResolutionWire::Rejected, Some(outcome()), None),
        "open" => (ResolutionWire::Open, None, Some(PostureWire::OperatorAccepted)),
        _ => return Err(Problem::bad_request("choose what became of it")),
    };
    let reason = field("reason").to_owned();
    let wanted = ResolveRequest { version, resolution, outcome, posture, reason };
    let stepped = api::decide(app, &asked.caller, id, wanted).await?;
    if !stepped.is_done() {
        let body = "<p class=\"bad\">It has changed meanwhile, and was not decided. Look at it again.</p>".to_owned()
            + &format!("<p><a href=\"/page/operation?id={id}\">Back to it</a></p>");
        return Ok(page(StatusCode::CONFLICT, html::layout("Not decided", &asked.caller, &body)));
    }
    let mut reply = page(StatusCode::SEE_OTHER, String::new());
    if let Ok(place) = http::HeaderValue::from_str(&format!("/page/operation?id={id}")) {
        reply.headers_mut().insert(http::header::LOCATION, place);
    }
    Ok(reply)
}
