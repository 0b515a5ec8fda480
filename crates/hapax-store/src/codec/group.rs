//! The bytes of one group, format 1.

use std::sync::Arc;

use hapax_core::{
    Id, Millis, Nonce, WallMillis,
    group::{CommitPoint, Group, GroupPhase, MOST_STARTS, RAISES_KEPT, Raise, Started},
};

use super::{
    due,
    operation::{
        effect_number, read_about, read_anchor, read_effect, read_span, write_about, write_anchor, write_span,
    },
    read::{CodecError, Read, Reader},
    write::Writer,
};
use crate::{Counted, Due, Envelope, Kind};

const FORMAT: u8 = 1;
/// When somebody looks after a group whose closing was cut short.
const LOOK_AGAIN: Millis = Millis::from_mins(1);

/// Wraps a group for a store.
#[must_use]
pub fn seal_group(group: &Group) -> Envelope {
    let window = match group.phase {
        GroupPhase::Open | GroupPhase::Closing => None,
        GroupPhase::Closed { since, keep } => due(since, keep),
    };
    Envelope {
        kind: Kind::GROUP,
        surface: group.about.surface_tag,
        tenant: group.about.tenant_tag,
        counted: Counted::Record,
        lease_end: matches!(group.phase, GroupPhase::Closing).then_some(Due::After(LOOK_AGAIN)),
        expiry: window,
        gone: window,
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload: encode(group),
    }
}

/// Reads back what [`seal_group`] wrote.
pub fn open_group(envelope: &Envelope) -> Result<Group, CodecError> {
    if envelope.kind != Kind::GROUP {
        return Err(CodecError::Invalid { what: "kind of record" });
    }
    let mut r = Reader::open(&envelope.payload, FORMAT)?;
    let about = read_about(&mut r, envelope.surface, envelope.tenant)?;
    let group = Group {
        about: Arc::new(about),
        parent: r.maybe("parent", |r| r.fixed("parent").map(Id))?,
        epoch: r.number("epoch")?,
        raises: r.list("supersedes", RAISES_KEPT, |r| {
            Ok(Raise { nonce: Nonce(r.fixed("nonce")?), epoch: r.number("epoch")? })
        })?,
        committed: r.maybe("commit point", |r| {
            Ok(CommitPoint {
                by: r.maybe("member", |r| r.fixed("member").map(Id))?,
                wall: WallMillis(r.number("commit time")?),
            })
        })?,
        unwinding: r.flag("unwinding mark")?,
        phase: read_phase(&mut r)?,
        starts: r.list("starts", MOST_STARTS, |r| {
            Ok(Started {
                member: Id(r.fixed("member")?),
                attempt: r.small("attempt")?,
                epoch: r.number("epoch")?,
                effect: read_effect(r)?,
                ordinal: r.number("ordinal")?,
            })
        })?,
        next_ordinal: r.number("next ordinal")?,
        absorbed: r.number("absorbed messages")?,
        created_wall: WallMillis(r.number("creation time")?),
    };
    r.finish()?;
    Ok(group)
}

fn encode(group: &Group) -> bytes::Bytes {
    let mut w = Writer::new();
    w.byte(FORMAT);
    write_about(&mut w, &group.about);
    w.maybe(group.parent.as_ref(), |w, parent| w.fixed(&parent.0));
    w.number(group.epoch);
    w.number(group.raises.len() as u64);
    for raise in &group.raises {
        w.fixed(&raise.nonce.0);
        w.number(raise.epoch);
    }
    w.maybe(group.committed.as_ref(), |w, point| {
        w.maybe(point.by.as_ref(), |w, member| w.fixed(&member.0));
        w.number(point.wall.0);
    });
    w.byte(group.unwinding.into());
    match group.phase {
        GroupPhase::Open => w.byte(1),
        GroupPhase::Closing => w.byte(2),
        GroupPhase::Closed { since, keep } => {
            w.byte(3);
            write_anchor(&mut w, since);
            write_span(&mut w, keep);
        }
    }
    w.number(group.starts.len() as u64);
    for start in &group.starts {
        w.fixed(&start.member.0);
        w.number(start.attempt.into());
        w.number(start.epoch);
        w.byte(effect_number(start.effect));
        w.number(start.ordinal);
    }
    w.number(group.next_ordinal);
    w.number(group.absorbed);
    w.number(group.created_wall.0);
    w.sealed()
}

fn read_phase(r: &mut Reader<'_>) -> Read<GroupPhase> {
    Ok(match r.byte("phase")? {
        1 => GroupPhase::Open,
        2 => GroupPhase::Closing,
        3 => GroupPhase::Closed { since: read_anchor(r)?, keep: read_span(r)? },
        _ => return Err(CodecError::Invalid { what: "phase" }),
    })
}
