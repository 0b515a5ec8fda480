//! Groups, activities, tools, beats, memos, compensation and jobs over the API: what agents and workflows ask a daemon for.
//!
//! As everywhere here a handler reads, asks the engine and says what it said. Whatever is named by its id was made by
//! somebody: a stranger's reads as if it were not there.

mod activities;
mod beats;
mod bus;
mod compensations;
mod endpoints;
mod finish;
mod groups;
mod jobs;
mod memos;
mod problems;
mod tools;

use hapax_core::Id;
use hapax_engine::{GroupHandle, Turn};

pub(crate) use endpoints::ENDPOINTS;

use crate::{
    api::noted_step,
    app::{App, Asked, Caller},
    http::Reply,
    problem::Problem,
    wire::TurnWire,
};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Name {
    CreateGroup,
    ShowGroup,
    Supersede,
    Fork,
    ForceComplete,
    Absorb,
    Commit,
    Close,
    ClaimActivity,
    AnswerActivity,
    EndActivity,
    RunEffects,
    BeginTool,
    Gather,
    AbsorbIntoBeat,
    Seal,
    BeginBeat,
    LookUp,
    Keep,
    ShowPlan,
    Unwind,
    NextInverse,
    SeenTo,
    RetryInverse,
    Deliver,
    Settle,
    SubmitJob,
    ReportJob,
    ShowJob,
}

impl Name {
    /// Whether its own nonce or token makes it safe to repeat, or it only looks.
    pub(crate) const fn needs_no_key(self) -> bool {
        match self {
            Self::ShowGroup
            | Self::ClaimActivity
            | Self::AnswerActivity
            | Self::EndActivity
            | Self::RunEffects
            | Self::BeginTool
            | Self::BeginBeat
            | Self::LookUp
            | Self::ShowPlan
            | Self::NextInverse
            | Self::Deliver
            | Self::Settle
            | Self::SubmitJob
            | Self::ReportJob
            | Self::ShowJob => true,
            Self::CreateGroup
            | Self::Supersede
            | Self::Fork
            | Self::ForceComplete
            | Self::Absorb
            | Self::Commit
            | Self::Close
            | Self::Gather
            | Self::AbsorbIntoBeat
            | Self::Seal
            | Self::Keep
            | Self::Unwind
            | Self::SeenTo
            | Self::RetryInverse => false,
        }
    }

    /// What stands in the audit log where an administrator does it for a tenant. `None`: it only looks, or writes a row of
    /// its own that says more.
    const fn step(self) -> Option<&'static str> {
        match self {
            Self::Supersede => Some("supersede"),
            Self::Fork => Some("fork"),
            Self::ForceComplete => Some("force_complete"),
            Self::Absorb => Some("absorb"),
            Self::Commit => Some("commit"),
            Self::Close => Some("close"),
            Self::AnswerActivity => Some("answer"),
            Self::EndActivity => Some("end"),
            Self::NextInverse => Some("next_inverse"),
            Self::Settle => Some("settle"),
            Self::ReportJob => Some("report"),
            Self::Gather => Some("gather"),
            Self::AbsorbIntoBeat => Some("absorb_into_beat"),
            Self::Seal => Some("seal"),
            Self::Keep => Some("keep"),
            Self::CreateGroup
            | Self::ShowGroup
            | Self::ClaimActivity
            | Self::RunEffects
            | Self::BeginTool
            | Self::BeginBeat
            | Self::LookUp
            | Self::ShowPlan
            | Self::Unwind
            | Self::SeenTo
            | Self::RetryInverse
            | Self::Deliver
            | Self::SubmitJob
            | Self::ShowJob => None,
        }
    }
}

pub(crate) async fn answer(app: &App, name: Name, asked: Asked) -> Result<Reply, Problem> {
    if let Some(step) = name.step() {
        let subject = asked.id.map(|id| id.to_string()).unwrap_or_default();
        noted_step(app, &asked.caller, step, &subject).await?;
    }
    match name {
        Name::CreateGroup => groups::create(app, asked).await,
        Name::ShowGroup => groups::show(app, asked).await,
        Name::Supersede => groups::supersede(app, asked).await,
        Name::Fork | Name::ForceComplete => groups::fork(app, name, asked).await,
        Name::Absorb => groups::absorb(app, asked).await,
        Name::Commit | Name::Close => groups::end(app, name, asked).await,
        Name::ClaimActivity => activities::claim(app, asked).await,
        Name::AnswerActivity => activities::answered(app, asked).await,
        Name::EndActivity => activities::ended(app, asked).await,
        Name::RunEffects => activities::of_run(app, asked).await,
        Name::BeginTool => tools::begin(app, asked).await,
        Name::Gather => beats::gather(app, asked).await,
        Name::AbsorbIntoBeat => beats::absorb(app, asked).await,
        Name::Seal => beats::seal(app, asked).await,
        Name::BeginBeat => beats::begin(app, asked).await,
        Name::LookUp => memos::look_up(app, asked).await,
        Name::Keep => memos::keep(app, asked).await,
        Name::ShowPlan => compensations::show(app, asked).await,
        Name::Unwind => compensations::unwind(app, asked).await,
        Name::NextInverse => compensations::next(app, asked).await,
        Name::SeenTo => compensations::seen_to(app, asked).await,
        Name::RetryInverse => compensations::retry(app, asked).await,
        Name::Deliver => bus::deliver(app, asked).await,
        Name::Settle => bus::settle(app, asked).await,
        Name::SubmitJob => jobs::submit(app, asked).await,
        Name::ReportJob => jobs::report(app, asked).await,
        Name::ShowJob => jobs::show(app, asked).await,
    }
}

/// A group that the caller may see; one that nobody made and a stranger's are the same.
async fn group_of(app: &App, caller: &Caller, id: Option<Id>) -> Result<GroupHandle, Problem> {
    may_use(caller, "group")?;
    let id = id.ok_or_else(problems::unknown_group)?;
    let group = app.engine.group_by_id(&id).await?;
    group.filter(|group| caller.sees(group.tenant().as_str(), "group")).ok_or_else(problems::unknown_group)
}

/// The turn that a call is to be made in. Only of the caller's own tenant, whatever else the caller sees.
pub(crate) async fn turn_of(app: &App, caller: &Caller, wire: &TurnWire) -> Result<Turn, Problem> {
    let group = group_of(app, caller, Id::parse(&wire.group)).await?;
    if *group.tenant() != caller.identity.tenant {
        return Err(problems::unknown_group());
    }
    Ok(group.turn(wire.epoch))
}

pub(crate) fn may_use(caller: &Caller, surface: &str) -> Result<(), Problem> {
    if caller.identity.may_use(surface) {
        return Ok(());
    }
    Err(Problem::forbidden("this key is bound to other surfaces"))
}
