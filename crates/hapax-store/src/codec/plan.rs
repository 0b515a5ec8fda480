//! The bytes of one plan of compensation, format 1.

use std::sync::Arc;

use hapax_core::{
    Id, WallMillis,
    plan::{Inverse, Kept, Plan, StepState},
};

use super::{
    due,
    operation::{read_about, read_anchor, read_span, write_about, write_anchor, write_span},
    read::{CodecError, Read, Reader},
    write::Writer,
};
use crate::{Counted, Envelope, Kind};

const FORMAT: u8 = 1;
/// No group lists more starts.
const MOST_STEPS: usize = hapax_core::group::MOST_STARTS;

/// Wraps a plan for a store. It is kept with its group.
#[must_use]
pub fn seal_plan(plan: &Plan) -> Envelope {
    let window = plan.kept.and_then(|kept| due(kept.since, kept.keep));
    Envelope {
        kind: Kind::PLAN,
        surface: plan.about.surface_tag,
        tenant: plan.about.tenant_tag,
        counted: Counted::Record,
        lease_end: None,
        expiry: window,
        gone: window,
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload: encode(plan),
    }
}

/// Reads back what [`seal_plan`] wrote.
pub fn open_plan(envelope: &Envelope) -> Result<Plan, CodecError> {
    if envelope.kind != Kind::PLAN {
        return Err(CodecError::Invalid { what: "kind of record" });
    }
    let mut r = Reader::open(&envelope.payload, FORMAT)?;
    let about = read_about(&mut r, envelope.surface, envelope.tenant)?;
    let plan = Plan {
        about: Arc::new(about),
        group: Id(r.fixed("group")?),
        steps: r.list("steps", MOST_STEPS, |r| {
            Ok(Inverse {
                member: Id(r.fixed("member")?),
                ordinal: r.number("ordinal")?,
                name: r.text("compensation's name")?,
                input: r.bytes("compensation's input")?,
                state: read_state(r)?,
                note: r.maybe("note", |r| r.text("note"))?,
            })
        })?,
        without: r.small("effects without an inverse")?,
        running: r.flag("running mark")?,
        made_wall: WallMillis(r.number("plan time")?),
        kept: r.maybe("retention", |r| Ok(Kept { since: read_anchor(r)?, keep: read_span(r)? }))?,
    };
    r.finish()?;
    Ok(plan)
}

fn encode(plan: &Plan) -> bytes::Bytes {
    let mut w = Writer::new();
    w.byte(FORMAT);
    write_about(&mut w, &plan.about);
    w.fixed(&plan.group.0);
    w.number(plan.steps.len() as u64);
    for step in &plan.steps {
        w.fixed(&step.member.0);
        w.number(step.ordinal);
        w.text(&step.name);
        w.bytes(&step.input);
        w.byte(state_number(step.state));
        w.maybe(step.note.as_ref(), Writer::text);
    }
    w.number(plan.without.into());
    w.byte(plan.running.into());
    w.number(plan.made_wall.0);
    w.maybe(plan.kept, |w, kept| {
        write_anchor(w, kept.since);
        write_span(w, kept.keep);
    });
    w.sealed()
}

const fn state_number(state: StepState) -> u8 {
    match state {
        StepState::Pending => 1,
        StepState::Done => 2,
        StepState::Failed => 3,
        StepState::Manual => 4,
        StepState::SeenTo => 5,
    }
}

fn read_state(r: &mut Reader<'_>) -> Read<StepState> {
    Ok(match r.byte("step state")? {
        1 => StepState::Pending,
        2 => StepState::Done,
        3 => StepState::Failed,
        4 => StepState::Manual,
        5 => StepState::SeenTo,
        _ => return Err(CodecError::Invalid { what: "step state" }),
    })
}
