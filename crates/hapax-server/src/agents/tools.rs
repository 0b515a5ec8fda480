use std::convert::Infallible;

use hapax_engine::{Tool, ToolError};
use http::StatusCode;

use super::{may_use, turn_of};
use crate::{
    api::{begin_call, wished},
    app::{App, Asked},
    http::{Reply, json},
    problem::{Next, Problem, store_down},
    wire::ToolRequest,
};

pub(super) async fn begin(app: &App, asked: Asked) -> Result<Reply, Problem> {
    may_use(&asked.caller, "tool")?;
    let wanted: ToolRequest = json(&asked.headers, asked.body, &app.limits).await?;
    if !wanted.args.get().trim_start().starts_with('{') {
        return Err(Problem::bad_request("`args` is an object: the arguments by name"));
    }
    let tool = Tool::new(wanted.declaration).map_err(refused)?;
    let call = match &wanted.turn {
        Some(turn) => {
            let turn = turn_of(app, &asked.caller, turn).await?;
            tool.call_in(&app.engine, &turn, wanted.args.get()).map_err(refused)?
        }
        None => tool.call_for(&app.engine, &asked.caller.identity.tenant, wanted.args.get()).map_err(refused)?,
    };
    let call = wished(call.principal(&asked.caller.identity.principal), None, wanted.lease_ms, wanted.wait_ms)?;
    begin_call(app, &asked.caller, "tool", call, wanted.nonce.as_deref()).await
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all others speak of the declaration, and may grow")]
fn refused(error: ToolError<Infallible>) -> Problem {
    match error {
        ToolError::Call(hapax_engine::OnceError::Engine(error)) => error.into(),
        // A call that is only prepared comes to nothing else.
        ToolError::Call(error) => store_down(error),
        error => {
            let title = "The tool cannot be called so";
            Problem::new(StatusCode::BAD_REQUEST, "HX0095", title, error.to_string(), Next::FixRequest)
        }
    }
}
