//! One versioned binary form for each kind of record.
//!
//! The first byte is the format's version, the last four a CRC-32C of all before them. Every length is checked before
//! anything is read or allocated, nothing recurses, and a version newer than this program knows is an error, never a
//! guess. `docs/record-format.md` has the bytes.

mod answer;
mod beats;
mod group;
mod house;
mod key_slot;
mod memo;
mod operation;
mod plan;
mod read;
mod task;
mod task_state;
mod ties;
mod write;

use hapax_core::{Anchor, Millis, Record, Span, State, Window, windows};

use crate::{Counted, Due, Envelope, Kind};

pub use answer::{open_answer, seal_answer};
pub use beats::{open_beats, seal_beats};
pub use group::{open_group, seal_group};
pub use house::{open_claim, open_mark, seal_claim, seal_mark};
pub use key_slot::{open_key_slot, seal_key_slot};
pub use memo::{open_memo, seal_memo};
pub use operation::MOST_HEADERS;
pub use plan::{open_plan, seal_plan};
pub use read::CodecError;
pub use task::{open_task, seal_task};

/// The newest format of operations that this program reads. It writes the oldest that can hold a record.
pub const FORMAT: u8 = 4;

/// Wraps an operation record for a store: its bytes, and beside them what the store needs to index and expire it.
#[must_use]
pub fn seal(record: &Record) -> Envelope {
    let windows = windows(record);
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
        lease_end: due_after(windows.lease),
        expiry: due_after(windows.state),
        gone: due_after(windows.kept),
        in_doubt: matches!(record.state, State::InDoubt(_)),
        entries: record.ties.as_deref().map_or_else(Vec::new, ties::entries),
        beside: record.bytes_beside(),
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

const fn due_after(window: Option<Window>) -> Option<Due> {
    match window {
        Some(window) => due(window.from, window.span),
        None => None,
    }
}

pub(crate) const fn due(from: Anchor, span: Span) -> Option<Due> {
    match (from, span) {
        (_, Span::Forever) => None,
        (Anchor::Write, Span::For(length)) => Some(Due::After(length)),
        (Anchor::At(at), Span::For(Millis(length))) => Some(Due::At(at.plus(Millis(length)))),
    }
}
