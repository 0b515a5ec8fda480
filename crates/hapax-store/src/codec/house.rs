//! The bytes of claims and marks, format 1 each. They belong to no tenant, and no quota counts them.

use bytes::Bytes;
use hapax_core::{
    Millis, Tag,
    claim::{Claim, Claimant},
    mark::Mark,
};

use super::{
    operation::{read_anchor, write_anchor},
    read::{CodecError, Reader},
    write::Writer,
};
use crate::{Counted, Envelope, Kind};

const FORMAT: u8 = 1;
const NOBODY: Tag = Tag([0; 16]);

fn envelope(kind: Kind, payload: Bytes) -> Envelope {
    Envelope {
        kind,
        surface: NOBODY,
        tenant: NOBODY,
        counted: Counted::Record,
        lease_end: None,
        // A claim that nobody renews is taken over by the next who asks; swept, it would only be made anew.
        expiry: None,
        gone: None,
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload,
    }
}

/// Wraps a claim for a store.
#[must_use]
pub fn seal_claim(claim: &Claim) -> Envelope {
    let mut w = Writer::new();
    w.byte(FORMAT);
    w.fixed(&claim.by.0);
    write_anchor(&mut w, claim.since);
    w.number(claim.length.0);
    envelope(Kind::CLAIM, w.sealed())
}

/// Reads back what [`seal_claim`] wrote.
pub fn open_claim(envelope: &Envelope) -> Result<Claim, CodecError> {
    if envelope.kind != Kind::CLAIM {
        return Err(CodecError::Invalid { what: "kind of record" });
    }
    let mut r = Reader::open(&envelope.payload, FORMAT)?;
    let by = Claimant(r.fixed("claimant")?);
    let claim = Claim { by, since: read_anchor(&mut r)?, length: Millis(r.number("length of a claim")?) };
    r.finish()?;
    Ok(claim)
}

/// Wraps a mark for a store.
#[must_use]
pub fn seal_mark(mark: &Mark) -> Envelope {
    let mut w = Writer::new();
    w.byte(FORMAT);
    w.fixed(&mark.0);
    envelope(Kind::MARK, w.sealed())
}

/// Reads back what [`seal_mark`] wrote.
pub fn open_mark(envelope: &Envelope) -> Result<Mark, CodecError> {
    if envelope.kind != Kind::MARK {
        return Err(CodecError::Invalid { what: "kind of record" });
    }
    let mut r = Reader::open(&envelope.payload, FORMAT)?;
    let mark = Mark(r.fixed("mark")?);
    r.finish()?;
    Ok(mark)
}
