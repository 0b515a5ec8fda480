//! What format 2 adds to an operation: its ties to a group, a run, a compensation, a provider.

use hapax_core::{Compensation, CompensationInput, Honoured, Id, Millis, Tag, Ties, group_tag};

use super::{
    operation::{read_anchor, write_anchor},
    read::{CodecError, Read, Reader},
    write::Writer,
};
use crate::{Entry, List};

pub(super) fn write(w: &mut Writer, ties: &Ties) {
    w.maybe(ties.group.as_ref(), |w, group| w.fixed(&group.0));
    w.maybe(ties.run.as_ref(), |w, run| w.fixed(&run.0));
    w.maybe(ties.compensation.as_ref(), write_compensation);
    w.byte(ties.held.into());
    w.maybe(ties.honoured.as_ref(), |w, honoured| {
        write_anchor(w, honoured.from);
        w.number(honoured.window.0);
    });
}

pub(super) fn read(r: &mut Reader<'_>) -> Read<Ties> {
    Ok(Ties {
        group: r.maybe("group", |r| r.fixed("group").map(Id))?,
        run: r.maybe("run", |r| r.fixed("run").map(Tag))?,
        compensation: r.maybe("compensation", read_compensation)?,
        held: r.flag("hold mark")?,
        honoured: r.maybe("provider's window", |r| {
            Ok(Honoured { from: read_anchor(r)?, window: Millis(r.number("provider's window")?) })
        })?,
    })
}

pub(super) fn write_compensation(w: &mut Writer, compensation: &Compensation) {
    w.text(&compensation.name);
    match &compensation.input {
        CompensationInput::Given(bytes) => {
            w.byte(1);
            w.bytes(bytes);
        }
        CompensationInput::FromOutcome(pointer) => {
            w.byte(2);
            w.text(pointer);
        }
    }
}

pub(super) fn read_compensation(r: &mut Reader<'_>) -> Read<Compensation> {
    Ok(Compensation {
        name: r.text("compensation's name")?,
        input: match r.byte("compensation's input")? {
            1 => CompensationInput::Given(r.bytes("compensation's input")?),
            2 => CompensationInput::FromOutcome(r.text("compensation's input")?),
            _ => return Err(CodecError::Invalid { what: "compensation's input" }),
        },
    })
}

/// Where a store lists it: with the members of its group, and with the effects of its run.
pub(super) fn entries(ties: &Ties) -> Vec<Entry> {
    let group = ties.group.as_ref().map(group_tag);
    group.into_iter().chain(ties.run).map(|tag| Entry { list: List::Group, tag, order: 0 }).collect()
}
