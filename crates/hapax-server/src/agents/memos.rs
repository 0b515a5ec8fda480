use hapax_core::{
    Id,
    identity::{Dependencies, Fingerprint, TurnInput},
};
use hapax_engine::{MemoAnswer, Memos};
use serde_json::value::RawValue;

use super::may_use;
use crate::{
    app::{App, Asked, Caller},
    http::{Reply, answer, json},
    problem::{Problem, store_down},
    records,
    wire::{DependenciesWire, InputWire, KeepRequest, KeptWire, LookUpRequest, MemoWire},
};

const MOST_PHASE: usize = 255;

fn memos(app: &App, caller: &Caller, declared: &RawValue, phase: &str) -> Result<Memos, Problem> {
    may_use(caller, "memo")?;
    if phase.is_empty() || phase.len() > MOST_PHASE {
        return Err(Problem::bad_request("`phase` has from 1 to 255 bytes"));
    }
    Ok(app.engine.memos(&caller.identity.tenant, declared.get())?)
}

fn prints(app: &App, caller: &Caller, input: &InputWire, on: &DependenciesWire) -> (Fingerprint, Fingerprint) {
    let messages: Vec<&str> = input.messages.iter().map(String::as_str).collect();
    let input = TurnInput {
        tenant: caller.tenant(),
        agent: &input.agent,
        session: &input.session,
        channel: &input.channel,
        messages: &messages,
    };
    let on = Dependencies {
        scenario_set: &on.scenario_set,
        rules: &on.rules,
        knowledge_base: &on.knowledge_base,
        agent_config: &on.agent_config,
        tool_registry: &on.tool_registry,
    };
    (app.engine.input_fp(&input), app.engine.dep_fp(&on))
}

pub(super) async fn look_up(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: LookUpRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let memos = memos(app, &asked.caller, &wanted.reuse_decl, &wanted.phase)?;
    let (input, on) = prints(app, &asked.caller, &wanted.input, &wanted.dependencies);
    let (name, reason, value) = match memos.look_up(&wanted.phase, &input, &on).await? {
        MemoAnswer::Reuse { value, why } => ("reuse", why.to_string(), Some(value)),
        MemoAnswer::Revalidate { value, why } => ("revalidate", why.to_string(), Some(value)),
        MemoAnswer::Recompute(why) => ("recompute", why.to_string(), None),
    };
    // What a program in this process kept need not be JSON; then it is shown as text.
    let value = value.map(|bytes| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        RawValue::from_string(text.clone()).or_else(|_| serde_json::value::to_raw_value(&text))
    });
    let value = value.transpose().map_err(store_down)?;
    Ok(answer(&MemoWire { answer: name.to_owned(), reason, value }))
}

pub(super) async fn keep(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: KeepRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let memos = memos(app, &asked.caller, &wanted.reuse_decl, &wanted.phase)?;
    let producer = match &wanted.producer {
        None => None,
        Some(text) => Some(operation(app, &asked.caller, text).await?),
    };
    let (input, on) = prints(app, &asked.caller, &wanted.input, &wanted.dependencies);
    let value = wanted.value.get().to_owned();
    let kept = memos.keep(&wanted.phase, &input, &on, value, producer).await?;
    Ok(answer(&KeptWire { kept }))
}

/// An operation that is there and the caller's: anything else vouches for nothing.
async fn operation(app: &App, caller: &Caller, text: &str) -> Result<Id, Problem> {
    let id = Id::parse(text).ok_or_else(Problem::unknown_operation)?;
    let seen = records::read(&app.engine, &id).await?;
    let mine = seen.is_some_and(|seen| *seen.record.about.tenant == *caller.tenant());
    mine.then_some(id).ok_or_else(Problem::unknown_operation)
}
