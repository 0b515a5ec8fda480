use hapax_core::{
    Id,
    beat::{MOST_MESSAGES, NoBeat},
};
use hapax_engine::{BeatError, BeatSession, Gathered, SessionBeat};

use super::{group_of, may_use, turn_of};
use crate::{
    api::{begin_call, wished},
    app::{App, Asked, Caller},
    http::{Reply, answer, json},
    problem::Problem,
    wire::{
        AbsorbBeatRequest, AbsorbedWire, BeatBeginRequest, BeatWire, FoundMessage, GatherRequest, GatheredWire,
        SealRequest,
    },
};

/// An id of a message.
const MOST_MESSAGE: usize = 1_024;

fn session(app: &App, caller: &Caller, name: &str) -> Result<BeatSession, Problem> {
    may_use(caller, "beat")?;
    Ok(app.engine.beats(&caller.identity.tenant, name)?)
}

fn messages(given: &[String]) -> Result<Vec<&str>, Problem> {
    if given.is_empty() || given.len() > MOST_MESSAGES {
        return Err(Problem::bad_request("`messages` holds from 1 to 256 ids"));
    }
    if given.iter().any(|message| message.is_empty() || message.len() > MOST_MESSAGE) {
        return Err(Problem::bad_request("the id of a message has from 1 to 1024 bytes"));
    }
    Ok(given.iter().map(String::as_str).collect())
}

async fn beat(session: &BeatSession, number: u64) -> Result<SessionBeat, Problem> {
    Ok(session.beat(number).await?.ok_or(BeatError::Beat(NoBeat::Unknown))?)
}

pub(super) async fn gather(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: GatherRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let session = session(app, &asked.caller, &wanted.session)?;
    Ok(answer(&match session.gather(&messages(&wanted.messages)?).await? {
        Gathered::New(beat) => GatheredWire::New(wire(&beat)),
        Gathered::Known(beat) => GatheredWire::Known(wire(&beat)),
        Gathered::Overlap { found, beats, unanswered } => {
            GatheredWire::Overlap { found: named(found), beats: beats.iter().map(wire).collect(), unanswered }
        }
    }))
}

pub(super) async fn absorb(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: AbsorbBeatRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let session = session(app, &asked.caller, &wanted.session)?;
    let (beat, more) = (beat(&session, wanted.beat).await?, messages(&wanted.messages)?);
    let (beat, elsewhere) = match &wanted.turn {
        None => session.absorb(&beat, &more).await?,
        Some(turn) => {
            let group = group_of(app, &asked.caller, Id::parse(&turn.group)).await?;
            session.absorb_into(&group, &turn_of(app, &asked.caller, turn).await?, &beat, &more).await?
        }
    };
    Ok(answer(&AbsorbedWire { beat: wire(&beat), elsewhere: named(elsewhere) }))
}

pub(super) async fn seal(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: SealRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let session = session(app, &asked.caller, &wanted.session)?;
    let sealed = session.seal(&beat(&session, wanted.beat).await?).await?;
    Ok(answer(&wire(&sealed)))
}

pub(super) async fn begin(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: BeatBeginRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let session = session(app, &asked.caller, &wanted.session)?;
    let mut call = session.call(&beat(&session, wanted.beat).await?)?.principal(&asked.caller.identity.principal);
    call = wished(call, wanted.effect.as_deref(), wanted.lease_ms, wanted.wait_ms)?;
    if let Some(turn) = &wanted.turn {
        call = call.in_turn(&turn_of(app, &asked.caller, turn).await?);
    }
    begin_call(app, &asked.caller, "beat", call, wanted.nonce.as_deref()).await
}

const fn wire(beat: &SessionBeat) -> BeatWire {
    BeatWire { beat: beat.number(), sealed: beat.is_sealed(), size: beat.size() }
}

fn named(found: Vec<(String, u64)>) -> Vec<FoundMessage> {
    found.into_iter().map(|(message, beat)| FoundMessage { message, beat }).collect()
}
