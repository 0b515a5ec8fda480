use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hapax_core::{Body, Fingerprint, Outcome, OutcomeClass, Recorded, Replay, Stamp, WallMillis};
use subtle::ConstantTimeEq;

/// A final answer in as few bytes as it takes.
///
/// Of a print only the first half of up to two digests is kept. That is enough to recognise the request; a print that
/// does not match is no verdict here, it only sends the caller to the ledger.
#[derive(Clone, Debug)]
pub struct Answer {
    prints: [[u8; 16]; 2],
    schemes: [u8; 2],
    rejected: bool,
    attempt: u32,
    decided_wall: WallMillis,
    /// When the record expires; `u64::MAX`: never.
    expires: u64,
    /// When this entry is no longer believed, on the gate's own clock; `u64::MAX`: never.
    until: u64,
    kept: Kept,
}

#[derive(Clone, Debug)]
enum Kept {
    /// A success without status and headers, as `once` records it, and so short that each caller gets a copy: a count of
    /// those who hold it would take memory of its own, and be as far away.
    Short(Box<[u8]>),
    Whole(Arc<Whole>),
}

/// Behind one pointer, so that what few answers have costs the others nothing.
#[derive(Debug)]
struct Whole {
    outcome: Outcome,
    asked_first: Option<Arc<str>>,
}

/// The same outcome in memory of its own. Bytes that came over a connection are a part of the buffer they were read into,
/// and would keep all of it: many times what is counted here, and a buffer that its connection cannot use again.
fn alone(outcome: &Outcome) -> Outcome {
    let body = match &outcome.body {
        Body::Inline(bytes) => &bytes[..],
        Body::Empty | Body::Handle(_) | Body::Uncaptured { .. } | Body::Stored { .. } => &[],
    };
    let values = outcome.headers.iter().map(|(_, value)| value.len()).sum::<usize>();
    let mut all = BytesMut::with_capacity(values + body.len());
    all.extend_from_slice(body);
    for (_, value) in &outcome.headers {
        all.extend_from_slice(value);
    }
    let mut all = all.freeze();
    let body = match &outcome.body {
        Body::Inline(bytes) => Body::Inline(all.split_to(bytes.len())),
        other @ (Body::Empty | Body::Handle(_) | Body::Uncaptured { .. } | Body::Stored { .. }) => other.clone(),
    };
    let headers = outcome.headers.iter().map(|(name, value)| (Arc::clone(name), all.split_to(value.len()))).collect();
    Outcome { class: outcome.class, status: outcome.status, headers, body }
}

/// Up to so many bytes an answer is copied rather than shared.
const SHORT: usize = 1024;

/// No scheme has this number.
const NO_SCHEME: u8 = 0;

impl Answer {
    /// `None` for what the gate does not keep: answers whose body lies elsewhere or is gone.
    pub(super) fn of(guard: Option<&Fingerprint>, replay: &Replay, until: Option<u64>) -> Option<Self> {
        let Recorded::Whole(outcome) = &replay.answer else { return None };
        let kept = match &outcome.body {
            Body::Inline(bytes)
                if bytes.len() <= SHORT
                    && outcome.class == OutcomeClass::Success
                    && outcome.status == 0
                    && outcome.headers.is_empty()
                    && replay.asked_first.is_none() =>
            {
                Kept::Short(Box::from(&bytes[..]))
            }
            Body::Empty | Body::Inline(_) | Body::Handle(_) | Body::Uncaptured { .. } => {
                Kept::Whole(Arc::new(Whole { outcome: alone(outcome), asked_first: replay.asked_first.clone() }))
            }
            Body::Stored { .. } => return None,
        };
        let (mut prints, mut schemes) = ([[0; 16]; 2], [NO_SCHEME; 2]);
        for (at, (scheme, digest)) in guard.iter().flat_map(|guard| guard.digests()).take(2).enumerate() {
            schemes[at] = scheme.0;
            prints[at].copy_from_slice(&digest[..16]);
        }
        let expires = replay.expires.map_or(u64::MAX, |at| at.0);
        Some(Self {
            prints,
            schemes,
            rejected: replay.rejected,
            attempt: replay.attempt,
            decided_wall: replay.decided_wall,
            expires,
            until: until.unwrap_or(u64::MAX),
            kept,
        })
    }

    /// `here` is the gate's own clock. It is read only where it matters.
    pub(super) fn expired(&self, now: Stamp, here: impl FnOnce() -> u64) -> bool {
        (self.expires != u64::MAX && self.expires <= now.0) || (self.until != u64::MAX && self.until <= here())
    }

    /// Whether this certainly is the answer to that request.
    pub(super) fn is_for(&self, print: Option<&Fingerprint>) -> bool {
        let Some(print) = print else { return true };
        if self.schemes == [NO_SCHEME; 2] {
            return true;
        }
        let mut equal = subtle::Choice::from(0);
        for (scheme, digest) in print.digests() {
            for (known, half) in self.schemes.iter().zip(&self.prints) {
                if *known == scheme.0 {
                    equal |= half.ct_eq(&digest[..16]);
                }
            }
        }
        equal.into()
    }

    pub(super) fn replay(&self) -> Replay {
        let (outcome, asked_first) = match &self.kept {
            Kept::Short(bytes) => (Outcome::success(Bytes::copy_from_slice(bytes)), None),
            Kept::Whole(whole) => (whole.outcome.clone(), whole.asked_first.clone()),
        };
        Replay {
            answer: Recorded::Whole(outcome),
            rejected: self.rejected,
            decided_wall: self.decided_wall,
            expires: (self.expires != u64::MAX).then_some(Stamp(self.expires)),
            attempt: self.attempt,
            asked_first,
        }
    }

    /// The bytes that the recorded answer itself takes.
    pub(super) fn weight(&self) -> usize {
        match &self.kept {
            Kept::Short(bytes) => bytes.len(),
            Kept::Whole(whole) => {
                let outcome = &whole.outcome;
                let headers: usize = outcome.headers.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
                let body = match &outcome.body {
                    Body::Inline(bytes) => bytes.len(),
                    Body::Handle(handle) => handle.len(),
                    Body::Empty | Body::Stored { .. } | Body::Uncaptured { .. } => 0,
                };
                size_of::<Whole>() + headers + body
            }
        }
    }
}
