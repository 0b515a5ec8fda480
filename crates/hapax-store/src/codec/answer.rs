//! A recorded answer alone, for whoever keeps many of them at hand: one piece of memory each, which nobody has to walk through to let go of it.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::Outcome;

use super::{
    operation::{read_outcome, write_outcome},
    read::{CodecError, Reader},
    write::Writer,
};

/// The form never leaves the process that wrote it.
const FORMAT: u8 = 1;

/// The answer, and who asked first.
#[must_use]
pub fn seal_answer(outcome: &Outcome, asked_first: Option<&Arc<str>>) -> Bytes {
    let mut w = Writer::new();
    w.byte(FORMAT);
    w.maybe(asked_first, Writer::text);
    write_outcome(&mut w, outcome);
    w.sealed()
}

/// Reads back what [`seal_answer`] wrote. Body and headers are parts of it, and no copies.
pub fn open_answer(sealed: &Bytes) -> Result<(Outcome, Option<Arc<str>>), CodecError> {
    let mut r = Reader::open(sealed, FORMAT)?;
    let asked_first = r.maybe("who asked first", |r| r.text("who asked first"))?;
    let outcome = read_outcome(&mut r)?;
    r.finish()?;
    Ok((outcome, asked_first))
}
