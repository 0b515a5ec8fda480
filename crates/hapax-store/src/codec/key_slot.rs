//! The bytes of the slot that says which task leads under an idempotency key, format 1.

use std::sync::Arc;

use hapax_core::task::{KeySlot, TaskId};

use super::{
    operation::{read_about, write_about},
    read::{CodecError, Reader},
    write::Writer,
};
use crate::{Counted, Envelope, Kind};

const FORMAT: u8 = 1;

/// Wraps a slot for a store.
#[must_use]
pub fn seal_key_slot(slot: &KeySlot) -> Envelope {
    let mut w = Writer::new();
    w.byte(FORMAT);
    write_about(&mut w, &slot.about);
    w.fixed(&slot.leader.0);
    Envelope {
        kind: Kind::KEY_SLOT,
        surface: slot.about.surface_tag,
        tenant: slot.about.tenant_tag,
        counted: Counted::Record,
        lease_end: None,
        expiry: None,
        gone: None,
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload: w.sealed(),
    }
}

/// Reads back what [`seal_key_slot`] wrote.
pub fn open_key_slot(envelope: &Envelope) -> Result<KeySlot, CodecError> {
    if envelope.kind != Kind::KEY_SLOT {
        return Err(CodecError::Invalid { what: "kind of record" });
    }
    let mut r = Reader::open(&envelope.payload, FORMAT)?;
    let about = Arc::new(read_about(&mut r, envelope.surface, envelope.tenant)?);
    let slot = KeySlot { about, leader: TaskId(r.fixed("leader")?) };
    r.finish()?;
    Ok(slot)
}
