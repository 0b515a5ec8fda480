//! The bytes of one memo, format 1.

use std::sync::Arc;

use hapax_core::{
    Id, WallMillis,
    memo::{Memo, Reuse, ReuseScope},
};

use super::{
    due,
    operation::{
        read_about, read_anchor, read_body, read_print, read_span, write_about, write_anchor, write_body, write_print,
        write_span,
    },
    read::{CodecError, Read, Reader},
    write::Writer,
};
use crate::{Counted, Envelope, Kind};

const FORMAT: u8 = 1;

/// Wraps a memo for a store.
#[must_use]
pub fn seal_memo(memo: &Memo) -> Envelope {
    let window = due(memo.made, memo.keep);
    Envelope {
        kind: Kind::MEMO,
        surface: memo.about.surface_tag,
        tenant: memo.about.tenant_tag,
        counted: Counted::Record,
        lease_end: None,
        expiry: window,
        gone: window,
        in_doubt: false,
        entries: Vec::new(),
        beside: memo.value.bytes_beside(),
        payload: encode(memo),
    }
}

/// Reads back what [`seal_memo`] wrote.
pub fn open_memo(envelope: &Envelope) -> Result<Memo, CodecError> {
    if envelope.kind != Kind::MEMO {
        return Err(CodecError::Invalid { what: "kind of record" });
    }
    let mut r = Reader::open(&envelope.payload, FORMAT)?;
    let about = read_about(&mut r, envelope.surface, envelope.tenant)?;
    let memo = Memo {
        about: Arc::new(about),
        phase: r.text("phase")?,
        input: read_print(&mut r)?,
        dependencies: read_print(&mut r)?,
        reuse: Reuse { scope: read_scope(&mut r)?, requires_revalidate: r.flag("revalidation mark")? },
        producer: r.maybe("producer", |r| r.fixed("producer").map(Id))?,
        value: read_body(&mut r)?,
        made: read_anchor(&mut r)?,
        made_wall: WallMillis(r.number("memo time")?),
        keep: read_span(&mut r)?,
    };
    r.finish()?;
    Ok(memo)
}

fn encode(memo: &Memo) -> bytes::Bytes {
    let mut w = Writer::new();
    w.byte(FORMAT);
    write_about(&mut w, &memo.about);
    w.text(&memo.phase);
    write_print(&mut w, &memo.input);
    write_print(&mut w, &memo.dependencies);
    w.byte(match memo.reuse.scope {
        ReuseScope::SameInput => 1,
        ReuseScope::SameInputSameDep => 2,
        ReuseScope::Never => 3,
    });
    w.byte(memo.reuse.requires_revalidate.into());
    w.maybe(memo.producer.as_ref(), |w, producer| w.fixed(&producer.0));
    write_body(&mut w, &memo.value);
    write_anchor(&mut w, memo.made);
    w.number(memo.made_wall.0);
    write_span(&mut w, memo.keep);
    w.sealed()
}

fn read_scope(r: &mut Reader<'_>) -> Read<ReuseScope> {
    Ok(match r.byte("reuse scope")? {
        1 => ReuseScope::SameInput,
        2 => ReuseScope::SameInputSameDep,
        3 => ReuseScope::Never,
        _ => return Err(CodecError::Invalid { what: "reuse scope" }),
    })
}
