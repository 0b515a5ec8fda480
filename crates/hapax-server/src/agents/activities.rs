use hapax_core::{
    Outcome, Recorded,
    identity::{Field, Recipe, RecipeError},
};
use hapax_engine::{
    Activity, Answered, Begun, Carrier, Claimed, EffectState, Outgoing, Place, StreamClaimed, Told, stream_broken,
    stream_end,
};

use super::{
    finish::{finished, seen, token_of},
    may_use, turn_of,
};
use crate::{
    api::{Found, Undone, effect_of, given_out, lease_of, nonce_of, noted, refused_because, said, undone, wait_of},
    app::{App, Asked, Caller},
    http::{Reply, answer, json},
    problem::{Problem, store_down},
    wire::{
        ActivityAnswer, ActivityReplay, ActivityRequest, ActivityTicket, ActivityVerdicts, AnswerRequest, EffectRow,
        FieldWire, RecipeWire, RunEffects, StreamAgain, StreamEndRequest, StreamFinished, StreamWhole,
    },
};

const SURFACE: &str = "activity";
/// A name that goes into an identity.
const MOST_NAME: usize = 255;
/// What is said of a stream that broke off.
const MOST_WHY: usize = 1_024;

pub(super) async fn claim(app: &App, asked: Asked) -> Result<Reply, Problem> {
    may_use(&asked.caller, SURFACE)?;
    let wanted: ActivityRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let nonce = wanted.nonce.as_deref().map(nonce_of).transpose()?;
    let found = match activity(app, &asked.caller, &wanted).await {
        Ok(activity) => ask(app, &asked.caller, activity, nonce, wanted.stream).await,
        Err(refused) => Err(refused),
    };
    said(app, &asked.caller, found)
}

async fn activity(app: &App, caller: &Caller, wanted: &ActivityRequest) -> Result<Activity, Problem> {
    let names = [&wanted.run, &wanted.node, &wanted.provider];
    if names.into_iter().chain(&wanted.business_key).any(|name| name.is_empty() || name.len() > MOST_NAME) {
        return Err(Problem::bad_request("`run`, `node`, `provider` and `business_key` have from 1 to 255 bytes"));
    }
    let place = Place { run: &wanted.run, node: &wanted.node, ordinal: wanted.ordinal, provider: &wanted.provider };
    let mut activity = app.engine.activity(&caller.identity.tenant, &place).providers(&app.providers);
    activity = activity.principal(&caller.identity.principal);
    match (&wanted.business_key, &wanted.recipe) {
        (Some(_), Some(_)) => {
            return Err(Problem::bad_request("a call is known by its business key or by a recipe; send one of them"));
        }
        (Some(key), None) => activity = activity.business_key(key),
        (None, Some(recipe)) => {
            activity = by_recipe(activity, recipe).map_err(|error| Problem::bad_request(error.to_string()))?;
        }
        (None, None) => {}
    }
    if let Some(effect) = effect_of(wanted.effect.as_deref())? {
        activity = activity.effect(effect);
    }
    if let Some(request) = &wanted.request {
        activity = activity.fingerprint(&**request);
    }
    if let Some(declared) = &wanted.compensation {
        activity = match undone(declared)? {
            Undone::By(name, input) => activity.compensated_by(name, &input),
            Undone::FromOutcome(name, pointer) => activity.compensated_from_outcome(name, pointer),
        };
    }
    if let Some(turn) = &wanted.turn {
        activity = activity.in_turn(&turn_of(app, caller, turn).await?);
    }
    if let Some(lease) = wanted.lease_ms {
        activity = activity.lease(lease_of(lease)?);
    }
    if let Some(wait) = wait_of(wanted.wait_ms)? {
        activity = activity.wait(wait);
    }
    Ok(activity)
}

fn by_recipe(activity: Activity, wanted: &RecipeWire) -> Result<Activity, RecipeError> {
    let recipe = Recipe::named(&wanted.name)?;
    let lists = wanted.fields.iter().map(|(label, field)| match field {
        FieldWire::List(list) => (label, list.iter().map(String::as_str).collect()),
        FieldWire::Number(_) | FieldWire::Text(_) => (label, Vec::new()),
    });
    let lists: Vec<(&String, Vec<&str>)> = lists.collect();
    let fields = wanted.fields.values().zip(&lists).map(|(field, (label, list))| {
        let field = match field {
            FieldWire::Number(number) => Field::Number(*number),
            FieldWire::Text(text) => Field::Text(text),
            FieldWire::List(_) => Field::List(list),
        };
        (label.as_str(), field)
    });
    activity.recipe(recipe, &fields.collect::<Vec<_>>())
}

async fn ask(app: &App, caller: &Caller, activity: Activity, nonce: Option<hapax_core::Nonce>, stream: bool) -> Found {
    let (id, key_hash) = (activity.id()?, activity.key_hash()?);
    noted(app, caller, SURFACE, id).await?;
    let under_way = caller.identity.state.begin();
    let crowded = under_way.others >= app.limits.begins_per_tenant;
    let activity = if crowded { activity.wait(hapax_engine::Wait::No) } else { activity.wait_until(&app.until_stop) };
    let in_turn = activity.as_call().is_in_turn().then(|| activity.as_call().clone());
    let claimed = if stream {
        activity.claim_stream(nonce).await
    } else {
        activity.claim(nonce).await.map(|claimed| match claimed {
            Claimed::Call(outgoing) => StreamClaimed::Call(outgoing),
            Claimed::Told(told) => StreamClaimed::Told(told),
        })
    };
    drop(under_way);
    let operation = id.to_string();
    let begun = match claimed? {
        StreamClaimed::Call(outgoing) => {
            let (key, header, field) = carried(&outgoing);
            let ticket = given_out(app, caller, SURFACE, outgoing.into_ticket());
            let given = ActivityVerdicts::Execute(ActivityTicket { ticket, key, header, field });
            return Ok((id, key_hash, Told::Execute, Ok(answer(&given))));
        }
        StreamClaimed::Finished { attempt, status, length, digest } => {
            let digest = data_encoding::HEXLOWER.encode(&digest);
            let given = ActivityVerdicts::Finished(StreamFinished { operation, attempt, status, length, digest });
            return Ok((id, key_hash, Told::Replay, Ok(answer(&given))));
        }
        StreamClaimed::Again(outgoing) => {
            let (key, header, field) = carried(&outgoing);
            let given = ActivityVerdicts::Again(StreamAgain { operation, key, header, field });
            return Ok((id, key_hash, Told::Replay, Ok(answer(&given))));
        }
        StreamClaimed::Told(begun) => *begun,
    };
    match begun {
        Begun::Replay(replayed) => {
            let recorded = match &replayed.replay.answer {
                Recorded::Whole(outcome) => Answered::of(outcome),
                Recorded::DigestOnly { .. } => None,
            };
            let told = if replayed.joined { Told::Joined } else { Told::Replay };
            let Some(recorded) = recorded else {
                let problem = Problem::no_body("it was answered, and the answer itself is not kept any more").about(id);
                return Ok((id, key_hash, told, Err(problem)));
            };
            let (attempt, joined) = (replayed.replay.attempt, replayed.joined);
            let given = ActivityReplay { operation, attempt, joined, answer: wire(&recorded) };
            Ok((id, key_hash, told, Ok(answer(&ActivityVerdicts::Replay(given)))))
        }
        Begun::JoinedFailure(outcome) => {
            let failed = Answered::of(&outcome).map_or_else(unanswered, |answered| wire(&answered));
            let given = ActivityReplay { operation, attempt: 0, joined: true, answer: failed };
            Ok((id, key_hash, Told::JoinedFailure, Ok(answer(&ActivityVerdicts::JoinedFailure(given)))))
        }
        Begun::Told(verdict) => {
            let (told, problem) = refused_because(&app.engine, &verdict, in_turn.as_ref()).await;
            Ok((id, key_hash, told, Err(problem.about(id))))
        }
        // A ticket came as a claim.
        Begun::Execute(_) => Err(store_down("a ticket where a claim was taken")),
    }
}

/// The key that a provider is to see, and the header or field it goes into.
fn carried(outgoing: &Outgoing) -> (String, Option<String>, Option<String>) {
    let (header, field) = match outgoing.carrier() {
        Some(Carrier::Header(name)) => (Some(name.to_string()), None),
        Some(Carrier::Field(pointer)) => (None, Some(pointer.to_string())),
        None => (None, None),
    };
    (outgoing.key().to_owned(), header, field)
}

/// Of a failure without an answer there is none to show.
fn unanswered() -> ActivityAnswer {
    ActivityAnswer { status: 503, headers: Vec::new(), body: String::new() }
}

fn wire(answered: &Answered) -> ActivityAnswer {
    ActivityAnswer {
        status: answered.status,
        headers: answered.headers.clone(),
        body: String::from_utf8_lossy(answered.body()).into_owned(),
    }
}

/// Records what the provider answered, as its status says.
pub(super) async fn answered(app: &App, asked: Asked) -> Result<Reply, Problem> {
    may_use(&asked.caller, SURFACE)?;
    let id = asked.id.ok_or_else(Problem::unknown_operation)?;
    let wanted: AnswerRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let token = token_of(&wanted.token)?;
    let ActivityAnswer { status, headers, body } = wanted.answer;
    if !(100..600).contains(&status) || headers.len() > 64 {
        return Err(Problem::bad_request("an answer has a status from 100 to 599 and at most 64 headers"));
    }
    let seen = seen(app, &asked.caller, &id).await?;
    let mut answered = Answered::new(status, body);
    for (name, value) in &headers {
        answered = answered.header(name, value);
    }
    let class = app.providers.class_of(&wanted.provider, status, seen.record.effect);
    let outcome = answered.outcome(class).map_err(|error| Problem::bad_request(error.to_string()))?;
    finished(app, &asked.caller, &id, token, &seen, outcome).await
}

/// Records how a stream ended.
pub(super) async fn ended(app: &App, asked: Asked) -> Result<Reply, Problem> {
    may_use(&asked.caller, SURFACE)?;
    let id = asked.id.ok_or_else(Problem::unknown_operation)?;
    let wanted: StreamEndRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let token = token_of(&wanted.token)?;
    let seen = seen(app, &asked.caller, &id).await?;
    let outcome = match (wanted.whole, wanted.broken) {
        (Some(whole), None) => whole_stream(&whole)?,
        (None, Some(why)) if !why.is_empty() && why.len() <= MOST_WHY => stream_broken(&why),
        (Some(_), Some(_)) | (None, Some(_) | None) => {
            let detail = "a stream came as a whole or broke off: send `whole`, or `broken` with up to 1024 bytes";
            return Err(Problem::bad_request(detail));
        }
    };
    finished(app, &asked.caller, &id, token, &seen, outcome).await
}

fn whole_stream(whole: &StreamWhole) -> Result<Outcome, Problem> {
    let digest = data_encoding::HEXLOWER_PERMISSIVE.decode(whole.digest.as_bytes()).ok();
    match digest.and_then(|digest| digest.try_into().ok()) {
        Some(digest) if (100..600).contains(&whole.status) => Ok(stream_end(whole.status, whole.length, digest)),
        Some(_) | None => {
            Err(Problem::bad_request("a stream has a status from 100 to 599 and a digest of 64 hexadecimal digits"))
        }
    }
}

pub(super) async fn of_run(app: &App, asked: Asked) -> Result<Reply, Problem> {
    may_use(&asked.caller, SURFACE)?;
    let run = asked.run.unwrap_or_default();
    if run.is_empty() || run.len() > MOST_NAME {
        return Err(Problem::bad_request("the name of a run has from 1 to 255 bytes"));
    }
    let effects = app.engine.effects_of_run(&asked.caller.identity.tenant, &run).await?;
    let row = |effect: &hapax_engine::RunEffect| EffectRow {
        operation: effect.id.to_string(),
        state: state(effect.state).to_owned(),
        effect: effect.effect.name().to_owned(),
        attempt: effect.attempt,
        begun_at: effect.begun.0,
    };
    Ok(answer(&RunEffects { effects: effects.iter().map(row).collect() }))
}

const fn state(state: EffectState) -> &'static str {
    match state {
        EffectState::Claimed => "claimed",
        EffectState::Completed => "completed",
        EffectState::Released => "released",
        EffectState::Escaped => "escaped",
    }
}
