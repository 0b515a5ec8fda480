use hapax_core::group::{Group, GroupPhase};
use hapax_engine::{Progress, Reported, Turn};

use super::{Name, group_of, may_use, problems};
use crate::{
    api::{nonce_of, noted_step},
    app::{App, Asked},
    http::{Reply, answer, json},
    problem::Problem,
    wire::{
        AbsorbRequest, CommitPointWire, DoneWire, ForkRequest, GroupRequest, GroupWire, MayWire, NothingRequest,
        ReportedWire, StartWire, SupersedeRequest, SupersededWire, TurnWire,
    },
};

pub(super) async fn create(app: &App, asked: Asked) -> Result<Reply, Problem> {
    may_use(&asked.caller, "group")?;
    let wanted: GroupRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let group = app.engine.group(&asked.caller.identity.tenant, &wanted.name)?;
    noted_step(app, &asked.caller, "create_group", &group.id().to_string()).await?;
    Ok(answer(&turn_wire(&group.create().await?)))
}

pub(super) async fn show(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let group = group_of(app, &asked.caller, asked.id).await?;
    let view = group.view().await?.ok_or_else(problems::unknown_group)?;
    let may = match group.may_supersede().await? {
        Ok(()) => MayWire { allowed: true, reason: None },
        Err(why) => MayWire { allowed: false, reason: Some(why.to_string()) },
    };
    Ok(answer(&group_wire(&view.id.to_string(), &view.group, may)))
}

pub(super) async fn supersede(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let group = group_of(app, &asked.caller, asked.id).await?;
    let wanted: SupersedeRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let superseded = match wanted.nonce.as_deref().map(nonce_of).transpose()? {
        Some(nonce) => group.supersede_with(nonce).await?,
        None => group.supersede().await?,
    };
    Ok(answer(&SupersededWire {
        group: group.id().to_string(),
        epoch: superseded.turn.epoch(),
        already: superseded.already,
        started: superseded.started.iter().map(reported).collect(),
    }))
}

/// QUEUE, and FORCE_COMPLETE: the message that comes next gets a group of its own.
pub(super) async fn fork(app: &App, name: Name, asked: Asked) -> Result<Reply, Problem> {
    let group = group_of(app, &asked.caller, asked.id).await?;
    let wanted: ForkRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let turn = if name == Name::ForceComplete {
        group.force_complete(&wanted.name).await?
    } else {
        group.fork(&wanted.name).await?
    };
    Ok(answer(&turn_wire(&turn)))
}

pub(super) async fn absorb(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let group = group_of(app, &asked.caller, asked.id).await?;
    let wanted: AbsorbRequest = json(&asked.headers, asked.body, &app.limits).await?;
    group.absorb(&group.turn(wanted.epoch)).await?;
    Ok(answer(&DoneWire { done: true }))
}

/// A commit point, or the end.
pub(super) async fn end(app: &App, name: Name, asked: Asked) -> Result<Reply, Problem> {
    let group = group_of(app, &asked.caller, asked.id).await?;
    let NothingRequest {} = json(&asked.headers, asked.body, &app.limits).await?;
    if name == Name::Commit {
        group.commit().await?;
    } else {
        group.close().await?;
    }
    Ok(answer(&DoneWire { done: true }))
}

fn turn_wire(turn: &Turn) -> TurnWire {
    TurnWire { group: turn.group().to_string(), epoch: turn.epoch() }
}

fn reported(reported: &Reported) -> ReportedWire {
    ReportedWire {
        operation: reported.member.to_string(),
        effect: reported.effect.name().to_owned(),
        epoch: reported.epoch,
        progress: progress(reported.progress).to_owned(),
    }
}

pub(super) const fn progress(progress: Progress) -> &'static str {
    match progress {
        Progress::Gone => "gone",
        Progress::Waiting => "waiting",
        Progress::Running => "running",
        Progress::Open => "open",
        Progress::InDoubt => "in_doubt",
        Progress::Committed => "committed",
        Progress::Rejected => "rejected",
    }
}

fn group_wire(id: &str, group: &Group, may_supersede: MayWire) -> GroupWire {
    let phase = match group.phase {
        GroupPhase::Open => "open",
        GroupPhase::Closing => "closing",
        GroupPhase::Closed { .. } => "closed",
    };
    let start = |start: &hapax_core::group::Started| StartWire {
        operation: start.member.to_string(),
        attempt: start.attempt,
        epoch: start.epoch,
        effect: start.effect.name().to_owned(),
        ordinal: start.ordinal,
    };
    GroupWire {
        group: id.to_owned(),
        epoch: group.epoch,
        phase: phase.to_owned(),
        unwinding: group.unwinding,
        committed: group
            .committed
            .map(|point| CommitPointWire { by: point.by.map(|by| by.to_string()), at: point.wall.0 }),
        may_supersede,
        parent: group.parent.map(|parent| parent.to_string()),
        absorbed: group.absorbed,
        starts: group.starts.iter().map(start).collect(),
        created_at: group.created_wall.0,
    }
}
