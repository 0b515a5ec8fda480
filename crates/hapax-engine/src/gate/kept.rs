use std::sync::Arc;

use bytes::BytesMut;
use hapax_core::{Body, Outcome, OutcomeClass, Recorded, Replay};

use super::places::ROOM;

/// What is to be kept of an answer's outcome.
#[derive(Debug)]
pub(super) enum Kept<'a> {
    /// So short that it has room beside its entry.
    Beside(&'a [u8]),
    Elsewhere(Held),
}

/// In memory of its own.
#[derive(Debug)]
pub(super) enum Held {
    /// A success without status and headers, as `once` records it, and so short that each caller gets a copy: a count of
    /// those who hold it would take memory of its own, and be as far away.
    Short(Box<[u8]>),
    Whole(Arc<Whole>),
}

/// Behind one pointer, so that what few answers have costs the others nothing.
#[derive(Debug)]
pub(super) struct Whole {
    outcome: Outcome,
    asked_first: Option<Arc<str>>,
}

/// Up to so many bytes an answer is copied rather than shared.
const SHORT: usize = 1024;

impl<'a> Kept<'a> {
    /// `None` for what the gate does not keep: answers whose body lies elsewhere or is gone.
    pub(super) fn of(replay: &'a Replay) -> Option<Self> {
        let Recorded::Whole(outcome) = &replay.answer else { return None };
        Some(match &outcome.body {
            Body::Inline(bytes)
                if bytes.len() <= SHORT
                    && outcome.class == OutcomeClass::Success
                    && outcome.status == 0
                    && outcome.headers.is_empty()
                    && replay.asked_first.is_none() =>
            {
                if bytes.len() <= ROOM {
                    Self::Beside(bytes)
                } else {
                    Self::Elsewhere(Held::Short(Box::from(&bytes[..])))
                }
            }
            Body::Empty | Body::Inline(_) | Body::Handle(_) | Body::Uncaptured { .. } => {
                let whole = Whole { outcome: alone(outcome), asked_first: replay.asked_first.clone() };
                Self::Elsewhere(Held::Whole(Arc::new(whole)))
            }
            Body::Stored { .. } => return None,
        })
    }

    /// The bytes that the recorded answer itself takes.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Beside(bytes) => bytes.len(),
            Self::Elsewhere(held) => held.weight(),
        }
    }
}

impl Held {
    pub(super) fn given(&self) -> (Outcome, Option<Arc<str>>) {
        match self {
            Self::Short(bytes) => (Outcome::success(bytes.to_vec()), None),
            Self::Whole(whole) => (whole.outcome.clone(), whole.asked_first.clone()),
        }
    }

    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Short(bytes) => bytes.len(),
            Self::Whole(whole) => {
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
        Body::Inline(bytes) => Body::Inline(all.split_to(bytes.len()).into()),
        other @ (Body::Empty | Body::Handle(_) | Body::Uncaptured { .. } | Body::Stored { .. }) => other.clone(),
    };
    let headers = outcome.headers.iter().map(|(name, value)| (Arc::clone(name), all.split_to(value.len()))).collect();
    Outcome { class: outcome.class, status: outcome.status, headers, body }
}
