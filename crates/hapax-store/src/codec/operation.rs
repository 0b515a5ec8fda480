//! The bytes of one operation record: format 1, 2 where it has ties, 3 where an earlier attempt of it is in doubt, and 4
//! where it says how long attempts that ended were leased.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{
    Anchor, Body, BodyId, Effect, Fence, Fingerprint, Millis, Nonce, Outcome, OutcomeClass, Record, Span, Stamp, State,
    Tag, Version, WallMillis,
    identity::Scheme,
    policy::{AfterWindow, OnLapse},
    record::{
        About, Attempt, EVIDENCE_KEPT, EarlierDoubt, End, Evidence, Final, InDoubt, Lease, Open, PAST_KEPT, Past,
        Pending, Resolved, Rules, Tombstone,
    },
};

use super::{
    FORMAT,
    read::{CodecError, Read, Reader},
    ties,
    write::Writer,
};

/// More headers than any answer carries. With more it can be written, but not read.
pub const MOST_HEADERS: usize = 1024;
/// What follows the fields that every operation has: a sum of these.
const TIES: u64 = 1;
const EARLIER_DOUBT: u64 = 2;
const LEASES: u64 = 4;
const ALL: u64 = TIES | EARLIER_DOUBT | LEASES;

/// A record is written as the oldest format has it that can hold it, so that as many programs as may can read it. One that
/// does not know of earlier doubts must not: it would forget them.
const fn format_of(extensions: u64) -> u8 {
    match extensions {
        0 => 1,
        TIES => 2,
        some if some & LEASES == 0 => 3,
        _ => 4,
    }
}

fn is_leased(attempt: &Attempt, past: &[Past]) -> bool {
    attempt.lease.is_some() || past.iter().any(|past| past.lease.is_some())
}

pub(super) fn encode(record: &Record) -> Bytes {
    let mut w = Writer::new();
    let leased = is_leased(&record.attempt, &record.past);
    let extensions = if record.ties.is_some() { TIES } else { 0 }
        | if record.earlier_doubt.is_some() { EARLIER_DOUBT } else { 0 }
        | if leased { LEASES } else { 0 };
    w.byte(format_of(extensions));
    write_about(&mut w, &record.about);
    w.byte(effect_number(record.effect));
    w.maybe(record.print.as_ref(), write_print);
    w.maybe(record.guard_before.as_ref(), write_print);
    write_attempt(&mut w, &record.attempt);
    write_rules(&mut w, &record.rules);
    write_state(&mut w, &record.state);
    w.number(record.past.len() as u64);
    for past in &record.past {
        w.number(past.number.into());
        w.text(&past.owner);
        w.number(past.begun_wall.0);
        w.byte(end_number(past.end));
    }
    w.number(record.evidence.len() as u64);
    for kept in &record.evidence {
        w.number(kept.attempt.into());
        write_outcome(&mut w, &kept.outcome);
        w.number(kept.wall.0);
    }
    w.maybe(record.resolved.as_ref(), |w, resolved| {
        w.text(&resolved.actor);
        w.text(&resolved.reason);
        w.number(resolved.wall.0);
    });
    w.number(extensions);
    if let Some(ties) = &record.ties {
        ties::write(&mut w, ties);
    }
    if let Some(doubt) = &record.earlier_doubt {
        w.number(doubt.attempt.into());
        w.number(doubt.since.0);
        w.maybe(doubt.failure.as_ref(), write_outcome);
    }
    if leased {
        for lease in record.past.iter().map(|past| past.lease).chain([record.attempt.lease]) {
            w.maybe(lease.map(|lease| lease.0), Writer::number);
        }
    }
    w.sealed()
}

pub(super) fn decode(bytes: &Bytes, surface_tag: Tag, tenant_tag: Tag) -> Read<Record> {
    let mut r = Reader::open(bytes, FORMAT)?;
    let about = read_about(&mut r, surface_tag, tenant_tag)?;
    let effect = read_effect(&mut r)?;
    let print = r.maybe("fingerprint", read_print)?;
    let guard_before = r.maybe("earlier fingerprint", read_print)?;
    let mut attempt = read_attempt(&mut r)?;
    let rules = read_rules(&mut r)?;
    let state = read_state(&mut r)?;
    let mut past = r.list("past attempts", PAST_KEPT, |r| {
        Ok(Past {
            number: r.small("past attempt")?,
            owner: r.text("past owner")?,
            begun_wall: WallMillis(r.number("past time")?),
            lease: None,
            end: read_end(r)?,
        })
    })?;
    let evidence = r.list("evidence", EVIDENCE_KEPT, |r| {
        Ok(Evidence {
            attempt: r.small("evidence attempt")?,
            outcome: read_outcome(r)?,
            wall: WallMillis(r.number("evidence time")?),
        })
    })?;
    let resolved = r.maybe("resolution", |r| {
        Ok(Resolved {
            actor: r.text("resolution actor")?,
            reason: r.text("resolution reason")?,
            wall: WallMillis(r.number("resolution time")?),
        })
    })?;
    let extensions = r.number("extensions")?;
    if extensions > ALL || r.format() != format_of(extensions) {
        return Err(CodecError::Invalid { what: "extension" });
    }
    let has = |extension| extensions & extension != 0;
    let ties = if has(TIES) { Some(Arc::new(ties::read(&mut r)?)) } else { None };
    let earlier_doubt = if has(EARLIER_DOUBT) { Some(Arc::new(read_earlier_doubt(&mut r)?)) } else { None };
    if has(LEASES) {
        for lease in past.iter_mut().map(|past| &mut past.lease).chain([&mut attempt.lease]) {
            *lease = r.maybe("lease", |r| r.number("lease"))?.map(Millis);
        }
        // A record has one form: without any lease it has another format.
        if !is_leased(&attempt, &past) {
            return Err(CodecError::Invalid { what: "lease" });
        }
    }
    r.finish()?;
    let about = Arc::new(about);
    Ok(Record {
        about,
        effect,
        print,
        guard_before,
        attempt,
        rules,
        state,
        past,
        evidence,
        resolved,
        ties,
        earlier_doubt,
    })
}

fn read_earlier_doubt(r: &mut Reader<'_>) -> Read<EarlierDoubt> {
    Ok(EarlierDoubt {
        attempt: r.small("attempt in doubt")?,
        since: Stamp(r.number("time of doubt")?),
        failure: r.maybe("failure beside doubt", read_outcome)?,
    })
}

pub(super) fn write_about(w: &mut Writer, about: &About) {
    w.text(&about.surface);
    w.text(&about.tenant);
    w.maybe(about.principal.as_ref(), Writer::text);
    w.fixed(&about.key_hash);
}

pub(super) fn read_about(r: &mut Reader<'_>, surface_tag: Tag, tenant_tag: Tag) -> Read<About> {
    Ok(About {
        surface: r.text("surface")?,
        tenant: r.text("tenant")?,
        surface_tag,
        tenant_tag,
        principal: r.maybe("principal", |r| r.text("principal"))?,
        key_hash: r.fixed("key hash")?,
    })
}

pub(super) fn write_print(w: &mut Writer, print: &Fingerprint) {
    w.byte(print.digests().count() as u8);
    for (scheme, digest) in print.digests() {
        w.byte(scheme.0);
        w.fixed(digest);
    }
}

pub(super) fn read_print(r: &mut Reader<'_>) -> Read<Fingerprint> {
    let what = "fingerprint";
    let count = r.byte(what)?;
    if count == 0 {
        return Err(CodecError::Invalid { what });
    }
    let mut print = Fingerprint::of(Scheme(r.byte(what)?), r.fixed(what)?);
    for _ in 1..count {
        print = print.and(Scheme(r.byte(what)?), r.fixed(what)?).ok_or(CodecError::Invalid { what })?;
    }
    Ok(print)
}

fn write_attempt(w: &mut Writer, attempt: &Attempt) {
    w.number(attempt.number.into());
    w.fixed(&attempt.nonce.0);
    w.text(&attempt.owner);
    w.maybe(attempt.epoch, Writer::number);
    write_anchor(w, attempt.begun);
    w.number(attempt.begun_wall.0);
    match attempt.fence {
        Fence::Write => w.maybe(None::<u64>, Writer::number),
        Fence::At(version) => w.maybe(Some(version.0), Writer::number),
    }
    w.byte(end_number(attempt.end));
}

fn read_attempt(r: &mut Reader<'_>) -> Read<Attempt> {
    Ok(Attempt {
        number: r.small("attempt")?,
        nonce: Nonce(r.fixed("nonce")?),
        owner: r.text("owner")?,
        epoch: r.maybe("epoch", |r| r.number("epoch"))?,
        begun: read_anchor(r)?,
        begun_wall: WallMillis(r.number("begin time")?),
        fence: r.maybe("fence", |r| r.number("fence"))?.map_or(Fence::Write, |at| Fence::At(Version(at))),
        lease: None,
        end: read_end(r)?,
    })
}

fn write_rules(w: &mut Writer, rules: &Rules) {
    w.byte(match rules.on_lapse {
        OnLapse::Open => 1,
        OnLapse::InDoubt => 2,
        OnLapse::Stale => 3,
    });
    write_span(w, rules.open_retention);
    w.byte(match rules.after_window {
        AfterWindow::New => 1,
        AfterWindow::Refuse => 2,
    });
    write_span(w, rules.tombstone_retention);
    w.fixed(&rules.revision.to_be_bytes());
}

fn read_rules(r: &mut Reader<'_>) -> Read<Rules> {
    Ok(Rules {
        on_lapse: match r.byte("lapse rule")? {
            1 => OnLapse::Open,
            2 => OnLapse::InDoubt,
            3 => OnLapse::Stale,
            _ => return Err(CodecError::Invalid { what: "lapse rule" }),
        },
        open_retention: read_span(r)?,
        after_window: match r.byte("window rule")? {
            1 => AfterWindow::New,
            2 => AfterWindow::Refuse,
            _ => return Err(CodecError::Invalid { what: "window rule" }),
        },
        tombstone_retention: read_span(r)?,
        revision: u64::from_be_bytes(r.fixed("policy revision")?),
    })
}

// 7 is reserved for Alias, which comes with regions.
fn write_state(w: &mut Writer, state: &State) {
    match state {
        State::Pending(pending) => {
            w.byte(1);
            w.byte(pending.started.into());
            write_anchor(w, pending.lease.from);
            w.number(pending.lease.length.0);
        }
        State::Open(open) => {
            w.byte(2);
            write_anchor(w, open.since);
            w.maybe(open.failure.as_ref(), write_outcome);
        }
        State::InDoubt(doubt) => {
            w.byte(3);
            write_anchor(w, doubt.since);
            w.number(doubt.probes.into());
            w.maybe(doubt.next_probe.map(|at| at.0), Writer::number);
        }
        State::Committed(done) => {
            w.byte(4);
            write_final(w, done);
        }
        State::Rejected(done) => {
            w.byte(5);
            write_final(w, done);
        }
        State::Tombstone(stone) => {
            w.byte(6);
            w.byte(stone.rejected.into());
            w.number(stone.status.into());
            w.fixed(&stone.digest);
            write_anchor(w, stone.decided);
            w.number(stone.decided_wall.0);
            write_span(w, stone.retention);
        }
    }
}

fn read_state(r: &mut Reader<'_>) -> Read<State> {
    Ok(match r.byte("state")? {
        1 => State::Pending(Pending {
            started: r.flag("start mark")?,
            lease: Lease { from: read_anchor(r)?, length: Millis(r.number("lease")?) },
        }),
        2 => State::Open(Open { since: read_anchor(r)?, failure: r.maybe("failure", read_outcome)? }),
        3 => State::InDoubt(InDoubt {
            since: read_anchor(r)?,
            probes: r.small("probe count")?,
            next_probe: r.maybe("next probe", |r| r.number("next probe"))?.map(Stamp),
        }),
        4 => State::Committed(read_final(r)?),
        5 => State::Rejected(read_final(r)?),
        6 => State::Tombstone(Tombstone {
            rejected: r.flag("rejection mark")?,
            status: r.small("status")?,
            digest: r.fixed("outcome digest")?,
            decided: read_anchor(r)?,
            decided_wall: WallMillis(r.number("decision time")?),
            retention: read_span(r)?,
        }),
        _ => return Err(CodecError::Invalid { what: "state" }),
    })
}

fn write_final(w: &mut Writer, done: &Final) {
    write_anchor(w, done.decided);
    w.number(done.decided_wall.0);
    write_span(w, done.retention);
    write_outcome(w, &done.outcome);
}

fn read_final(r: &mut Reader<'_>) -> Read<Final> {
    Ok(Final {
        decided: read_anchor(r)?,
        decided_wall: WallMillis(r.number("decision time")?),
        retention: read_span(r)?,
        outcome: read_outcome(r)?,
    })
}

pub(super) fn write_outcome(w: &mut Writer, outcome: &Outcome) {
    w.byte(outcome.class.number());
    w.number(outcome.status.into());
    w.number(outcome.headers.len() as u64);
    for (name, value) in &outcome.headers {
        w.text(name);
        w.bytes(value);
    }
    write_body(w, &outcome.body);
}

pub(super) fn write_body(w: &mut Writer, body: &Body) {
    match body {
        Body::Empty => w.byte(1),
        Body::Inline(bytes) => {
            w.byte(2);
            w.bytes(bytes);
        }
        Body::Stored { body, length, digest } => {
            w.byte(3);
            w.fixed(&body.0);
            w.number(*length);
            w.fixed(digest);
        }
        Body::Uncaptured { length, digest } => {
            w.byte(4);
            w.number(*length);
            w.fixed(digest);
        }
        Body::Handle(handle) => {
            w.byte(5);
            w.text(handle);
        }
    }
}

pub(super) fn read_outcome(r: &mut Reader<'_>) -> Read<Outcome> {
    let class = read_class(r)?;
    let status = r.small("status")?;
    let headers = r.list("headers", MOST_HEADERS, |r| Ok((r.text("header name")?, r.bytes("header value")?)))?;
    let body = read_body(r)?;
    Ok(Outcome { class, status, headers, body })
}

pub(super) fn read_body(r: &mut Reader<'_>) -> Read<Body> {
    Ok(match r.byte("body")? {
        1 => Body::Empty,
        2 => Body::Inline(r.bytes("body")?.into()),
        3 => Body::Stored {
            body: BodyId(r.fixed("body id")?),
            length: r.number("body length")?,
            digest: r.fixed("body digest")?,
        },
        4 => Body::Uncaptured { length: r.number("body length")?, digest: r.fixed("body digest")? },
        5 => Body::Handle(r.text("handle")?),
        _ => return Err(CodecError::Invalid { what: "body" }),
    })
}

pub(super) fn write_anchor(w: &mut Writer, anchor: Anchor) {
    match anchor {
        Anchor::Write => w.maybe(None::<u64>, Writer::number),
        Anchor::At(at) => w.maybe(Some(at.0), Writer::number),
    }
}

pub(super) fn read_anchor(r: &mut Reader<'_>) -> Read<Anchor> {
    Ok(r.maybe("stamp", |r| r.number("stamp"))?.map_or(Anchor::Write, |at| Anchor::At(Stamp(at))))
}

pub(super) fn write_span(w: &mut Writer, span: Span) {
    match span {
        Span::Forever => w.maybe(None::<u64>, Writer::number),
        Span::For(length) => w.maybe(Some(length.0), Writer::number),
    }
}

pub(super) fn read_span(r: &mut Reader<'_>) -> Read<Span> {
    Ok(r.maybe("span", |r| r.number("span"))?.map_or(Span::Forever, |length| Span::For(Millis(length))))
}

pub(super) const fn effect_number(effect: Effect) -> u8 {
    match effect {
        Effect::Pure => 1,
        Effect::Idempotent => 2,
        Effect::Compensatable => 3,
        Effect::Irreversible => 4,
        Effect::Unsafe => 5,
    }
}

pub(super) fn read_effect(r: &mut Reader<'_>) -> Read<Effect> {
    let number = r.byte("effect")?;
    Effect::ALL
        .into_iter()
        .find(|effect| effect_number(*effect) == number)
        .ok_or(CodecError::Invalid { what: "effect" })
}

fn read_class(r: &mut Reader<'_>) -> Read<OutcomeClass> {
    OutcomeClass::from_number(r.byte("outcome class")?).ok_or(CodecError::Invalid { what: "outcome class" })
}

const fn end_number(end: End) -> u8 {
    match end {
        End::Running => 1,
        End::Completed => 2,
        End::Rejected => 3,
        End::Failed => 4,
        End::FailedUnknown => 5,
        End::Released => 6,
        End::Lapsed { started: false } => 7,
        End::Lapsed { started: true } => 8,
        End::Resolved => 9,
        End::TakenOver => 10,
    }
}

fn read_end(r: &mut Reader<'_>) -> Read<End> {
    Ok(match r.byte("end")? {
        1 => End::Running,
        2 => End::Completed,
        3 => End::Rejected,
        4 => End::Failed,
        5 => End::FailedUnknown,
        6 => End::Released,
        7 => End::Lapsed { started: false },
        8 => End::Lapsed { started: true },
        9 => End::Resolved,
        10 => End::TakenOver,
        _ => return Err(CodecError::Invalid { what: "end" }),
    })
}
