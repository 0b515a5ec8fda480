//! A daemon cannot run what undoes an effect; it keeps the plan, and gives out one inverse after the other.

use std::{collections::HashMap, time::Duration};

use hapax_core::{
    Effect,
    plan::{Plan, StepState, Unwinding},
};
use hapax_engine::{GroupHandle, NextInverse, Progress, Unwound};
use serde_json::{json as value, value::RawValue};

use super::{group_of, groups::progress, may_use};
use crate::{
    api::{given_out, lease_of, nonce_of, note, wait_of},
    app::{App, Asked, Caller},
    audit::Action,
    http::{Reply, answer, json},
    problem::{Problem, store_down},
    wire::{
        InverseWire, NextRequest, NextWire, PlanWire, RetryRequest, SeenToRequest, StepWire, UnsettledWire,
        UnwindRequest,
    },
};

const SURFACE: &str = "compensation";
const MOST_INVERSES: usize = 256;
const MOST_NOTE: usize = 1_024;

async fn group(app: &App, asked: &Asked) -> Result<GroupHandle, Problem> {
    may_use(&asked.caller, SURFACE)?;
    group_of(app, &asked.caller, asked.id).await
}

pub(super) async fn show(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let group = group(app, &asked).await?;
    let plan = group.plan().await?.ok_or(hapax_engine::UnwindError::NoPlan { group: group.id() })?;
    Ok(answer(&plan_wire(&group, &plan)))
}

pub(super) async fn unwind(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let group = group(app, &asked).await?;
    let wanted: UnwindRequest = json(&asked.headers, asked.body, &app.limits).await?;
    // As for a begin: no more than so long.
    wait_of(wanted.wait_ms)?;
    if group.plan().await?.is_none() {
        let detail = value!({ "tenant": group.tenant().as_str() });
        note(app, &asked.caller.identity.actor(), Action::Unwind, &group.id().to_string(), detail).await?;
    }
    let wait = Duration::from_millis(wanted.wait_ms.unwrap_or(0));
    Ok(answer(&match group.plan_unwinding(wait).await? {
        Unwound::Plan { plan, .. } => plan_wire(&group, &plan),
        Unwound::NotYet(members) => not_yet(&group, &members),
    }))
}

pub(super) async fn next(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let group = group(app, &asked).await?;
    let wanted: NextRequest = json(&asked.headers, asked.body, &app.limits).await?;
    if wanted.inverses.len() > MOST_INVERSES {
        return Err(Problem::bad_request("`inverses` names at most 256"));
    }
    let mut effects = HashMap::new();
    for (name, class) in wanted.inverses {
        let effect = Effect::parse(&class).ok_or_else(|| {
            Problem::bad_request("an inverse is pure, idempotent, compensatable, irreversible or unsafe")
        })?;
        effects.insert(name, effect);
    }
    let (nonce, lease) = (nonce_of(&wanted.nonce)?, wanted.lease_ms.map(lease_of).transpose()?);
    Ok(answer(&match group.next_inverse(&effects, nonce, lease).await? {
        NextInverse::Run { step, ticket } => {
            let text = String::from_utf8_lossy(&step.input).into_owned();
            NextWire::Run(InverseWire {
                ticket: given_out(app, &asked.caller, SURFACE, *ticket),
                ordinal: step.ordinal,
                name: step.name.to_string(),
                input: RawValue::from_string(text).map_err(store_down)?,
                undoes: step.member.to_string(),
            })
        }
        NextInverse::Later { retry_after } => NextWire::Later { retry_after_ms: retry_after.0 },
        NextInverse::Nothing { plan, .. } => NextWire::Nothing(plan_wire(&group, &plan)),
    }))
}

pub(super) async fn seen_to(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let group = group(app, &asked).await?;
    let wanted: SeenToRequest = json(&asked.headers, asked.body, &app.limits).await?;
    judged(app, &asked.caller, &group, wanted.ordinal, &wanted.note, Action::SeenTo).await?;
    Ok(answer(&plan_wire(&group, &group.seen_to(wanted.ordinal, &wanted.note).await?)))
}

pub(super) async fn retry(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let group = group(app, &asked).await?;
    let wanted: RetryRequest = json(&asked.headers, asked.body, &app.limits).await?;
    judged(app, &asked.caller, &group, wanted.ordinal, &wanted.note, Action::RetryInverse).await?;
    Ok(answer(&plan_wire(&group, &group.retry_inverse(wanted.ordinal).await?)))
}

/// A person decides about one inverse: first the row in the audit log.
async fn judged(
    app: &App,
    caller: &Caller,
    group: &GroupHandle,
    ordinal: u64,
    why: &str,
    action: Action,
) -> Result<(), Problem> {
    if why.trim().is_empty() || why.len() > MOST_NOTE {
        return Err(Problem::bad_request("`note` has from 1 to 1024 bytes; say how or why"));
    }
    let plan = group.plan().await?.ok_or(hapax_engine::UnwindError::NoPlan { group: group.id() })?;
    if plan.steps.iter().all(|step| step.ordinal != ordinal) {
        return Err(Problem::bad_request("the plan has no step with this `ordinal`; look at it again"));
    }
    let detail = value!({ "ordinal": ordinal, "note": why, "tenant": group.tenant().as_str() });
    note(app, &caller.identity.actor(), action, &group.id().to_string(), detail).await
}

const fn state(state: Unwinding) -> &'static str {
    match state {
        Unwinding::None => "none",
        Unwinding::Pending => "pending",
        Unwinding::Running => "running",
        Unwinding::Completed => "completed",
        Unwinding::Partial => "partial",
        Unwinding::Failed => "failed",
        Unwinding::Manual => "manual",
    }
}

const fn step_state(state: StepState) -> &'static str {
    match state {
        StepState::Pending => "pending",
        StepState::Done => "done",
        StepState::Failed => "failed",
        StepState::Manual => "manual",
        StepState::SeenTo => "seen_to",
    }
}

fn plan_wire(group: &GroupHandle, plan: &Plan) -> PlanWire {
    let step = |step: &hapax_core::plan::Inverse| StepWire {
        ordinal: step.ordinal,
        name: step.name.to_string(),
        operation: step.member.to_string(),
        state: step_state(step.state).to_owned(),
        note: step.note.as_deref().map(str::to_owned),
    };
    let now = plan.state();
    PlanWire {
        group: group.id().to_string(),
        state: state(now).to_owned(),
        over: Unwound::Plan { state: now, plan: plan.clone() }.is_over(),
        steps: plan.steps.iter().map(step).collect(),
        without: plan.without,
        unsettled: Vec::new(),
    }
}

fn not_yet(group: &GroupHandle, members: &[(hapax_core::Id, Progress)]) -> PlanWire {
    let unsettled = members
        .iter()
        .map(|(id, how)| UnsettledWire { operation: id.to_string(), progress: progress(*how).to_owned() })
        .collect();
    PlanWire {
        group: group.id().to_string(),
        state: "not_yet".to_owned(),
        over: false,
        steps: Vec::new(),
        without: 0,
        unsettled,
    }
}
