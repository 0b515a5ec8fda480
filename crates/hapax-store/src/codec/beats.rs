//! The bytes of one session's beats, format 1.

use std::sync::Arc;

use hapax_core::{
    Millis, Span, Stamp, WallMillis,
    beat::{Beat, Beats, MOST_BEATS, MOST_MESSAGES, Message},
};

use super::{
    due,
    operation::{read_about, read_anchor, write_about, write_anchor},
    read::{CodecError, Read, Reader},
    write::Writer,
};
use crate::{Counted, Due, Envelope, Kind};

const FORMAT: u8 = 1;

/// Wraps the beats of a session for a store. They are due when the time of the last of them is over. With a sealed one they
/// are not gone by that: it may still be answered, which somebody has to look at.
#[must_use]
pub fn seal_beats(beats: &Beats) -> Envelope {
    let windows = beats.beats.iter().filter_map(|beat| due(beat.since, Span::For(beats.keep)));
    // A window that counts from this write ends after all that count from earlier ones.
    let last = windows.max_by_key(|due| match due {
        Due::After(_) => Stamp(u64::MAX),
        Due::At(at) => *at,
    });
    Envelope {
        kind: Kind::BEAT,
        surface: beats.about.surface_tag,
        tenant: beats.about.tenant_tag,
        counted: Counted::Record,
        lease_end: None,
        expiry: last,
        gone: last.filter(|_| beats.beats.iter().all(|beat| !beat.sealed)),
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload: encode(beats),
    }
}

/// Reads back what [`seal_beats`] wrote.
pub fn open_beats(envelope: &Envelope) -> Result<Beats, CodecError> {
    if envelope.kind != Kind::BEAT {
        return Err(CodecError::Invalid { what: "kind of record" });
    }
    let mut r = Reader::open(&envelope.payload, FORMAT)?;
    let about = read_about(&mut r, envelope.surface, envelope.tenant)?;
    let beats = Beats {
        about: Arc::new(about),
        next: r.number("next beat")?,
        beats: r.list("beats", MOST_BEATS, |r| {
            Ok(Beat {
                number: r.number("beat")?,
                members: read_members(r)?,
                sealed: r.flag("seal")?,
                since: read_anchor(r)?,
                wall: WallMillis(r.number("beat time")?),
            })
        })?,
        keep: Millis(r.number("retention")?),
    };
    r.finish()?;
    Ok(beats)
}

/// A set has one form: sorted, nothing twice.
fn read_members(r: &mut Reader<'_>) -> Read<Vec<Message>> {
    let members = r.list("messages", MOST_MESSAGES, |r| r.fixed("message").map(Message))?;
    if members.is_sorted_by(|left, right| left < right) {
        Ok(members)
    } else {
        Err(CodecError::Invalid { what: "order of messages" })
    }
}

fn encode(beats: &Beats) -> bytes::Bytes {
    let mut w = Writer::new();
    w.byte(FORMAT);
    write_about(&mut w, &beats.about);
    w.number(beats.next);
    w.number(beats.beats.len() as u64);
    for beat in &beats.beats {
        w.number(beat.number);
        w.number(beat.members.len() as u64);
        for message in &beat.members {
            w.fixed(&message.0);
        }
        w.byte(beat.sealed.into());
        write_anchor(&mut w, beat.since);
        w.number(beat.wall.0);
    }
    w.number(beats.keep.0);
    w.sealed()
}
