//! How an attempt ended, told by the one who shows its token.

use hapax_core::{Id, Outcome, State, Token};

use crate::{
    api::told,
    app::{App, Caller},
    http::Reply,
    problem::Problem,
    records,
};

pub(super) fn token_of(text: &str) -> Result<Token, Problem> {
    let wrong = "`token` is not one that was given out: a number, a dot, 32 digits";
    Token::parse(text).ok_or_else(|| Problem::bad_request(wrong))
}

/// The record of a call, as far as it is the caller's to see.
pub(super) async fn seen(app: &App, caller: &Caller, id: &Id) -> Result<records::Seen, Problem> {
    let seen = records::read(&app.engine, id).await?;
    seen.filter(|seen| caller.sees(&seen.record.about.tenant, &seen.record.about.surface))
        .ok_or_else(Problem::unknown_operation)
}

pub(super) async fn finished(
    app: &App,
    caller: &Caller,
    id: &Id,
    token: Token,
    seen: &records::Seen,
    outcome: Outcome,
) -> Result<Reply, Problem> {
    let stepped = match app.tickets.get(id, token, caller) {
        Some(ticket) => ticket.finish(&app.engine, outcome).await?,
        None => app.engine.finish(id, token, outcome).await?,
    };
    if matches!(&seen.record.state, State::Pending(_)) && stepped.is_done() {
        app.tickets.drop(id, token);
    }
    told(id, stepped, true)
}
