//! One versioned binary form for each kind of record.
//!
//! The first byte is the format's version, the last four a CRC-32C of all before them. Every length is checked before
//! anything is read or allocated, nothing recurses, and a version newer than this program knows is an error, never a
//! guess. `docs/record-format.md` has the bytes.

mod beats;
mod group;
mod key_slot;
mod memo;
mod operation;
mod plan;
mod read;
mod task;
mod task_state;
mod ties;
mod write;

use hapax_core::{
    Anchor, Millis, Record, Span, State,
    policy::{AfterWindow, OnLapse},
};

use crate::{Counted, Due, Envelope, Kind};

pub use beats::{open_beats, seal_beats};
pub use group::{open_group, seal_group};
pub use key_slot::{open_key_slot, seal_key_slot};
pub use memo::{open_memo, seal_memo};
pub use plan::{open_plan, seal_plan};
pub use read::CodecError;
pub use task::{open_task, seal_task};

/// The newest format of operations that this program reads. It writes the oldest that can hold a record.
pub const FORMAT: u8 = 2;

/// Wraps an operation record for a store: its bytes, and beside them what the store needs to index and expire it.
#[must_use]
pub fn seal(record: &Record) -> Envelope {
    let windows = Windows::of(record);
    Envelope {
        kind: Kind::OPERATION,
        surface: record.about.surface_tag,
        tenant: record.about.tenant_tag,
        counted: match &record.state {
            State::Tombstone(_) => Counted::Tombstone,
            State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) => {
                Counted::Record
            }
        },
        lease_end: windows.lease_end,
        expiry: windows.expiry,
        gone: windows.gone,
        in_doubt: matches!(record.state, State::InDoubt(_)),
        entries: record.ties.as_deref().map_or_else(Vec::new, ties::entries),
        payload: operation::encode(record),
    }
}

/// Reads back what [`seal`] wrote.
pub fn open(envelope: &Envelope) -> Result<Record, CodecError> {
    if envelope.kind != Kind::OPERATION {
        return Err(CodecError::Invalid { what: "kind of record" });
    }
    operation::decode(&envelope.payload, envelope.surface, envelope.tenant)
}

struct Windows {
    lease_end: Option<Due>,
    expiry: Option<Due>,
    gone: Option<Due>,
}

impl Windows {
    fn of(record: &Record) -> Self {
        let rules = &record.rules;
        match &record.state {
            State::Pending(pending) => {
                // A stale lease has no end that anybody could write down.
                let lease_end = match rules.on_lapse {
                    OnLapse::Stale => None,
                    OnLapse::Open | OnLapse::InDoubt => due(pending.lease.from, Span::For(pending.lease.length)),
                };
                Self { lease_end, expiry: None, gone: None }
            }
            State::InDoubt(_) => Self { lease_end: None, expiry: None, gone: None },
            State::Open(open) => Self::until(due(open.since, rules.open_retention)),
            State::Tombstone(stone) => Self::until(due(stone.decided, last(record, stone.retention))),
            State::Committed(_) if record.is_held() => Self { lease_end: None, expiry: None, gone: None },
            State::Committed(done) | State::Rejected(done) => Self {
                lease_end: None,
                expiry: due(done.decided, done.retention),
                gone: due(done.decided, last(record, done.retention)),
            },
        }
    }

    const fn until(end: Option<Due>) -> Self {
        Self { lease_end: None, expiry: end, gone: end }
    }
}

/// How long anything at all is kept of a final record.
const fn last(record: &Record, retention: Span) -> Span {
    match record.rules.after_window {
        AfterWindow::Refuse => retention.then(record.rules.tombstone_retention),
        AfterWindow::New => retention,
    }
}

pub(crate) const fn due(from: Anchor, span: Span) -> Option<Due> {
    match (from, span) {
        (_, Span::Forever) => None,
        (Anchor::Write, Span::For(length)) => Some(Due::After(length)),
        (Anchor::At(at), Span::For(Millis(length))) => Some(Due::At(at.plus(Millis(length)))),
    }
}
