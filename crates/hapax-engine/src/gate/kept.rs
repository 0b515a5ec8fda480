use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Body, Outcome, OutcomeClass, Recorded, Replay};
use hapax_store::codec::{MOST_HEADERS, open_answer, seal_answer};

use super::places::ROOM;

/// What is to be kept of an answer's outcome.
#[derive(Debug)]
pub(super) enum Kept<'a> {
    /// So short that it has room beside its entry.
    Beside(&'a [u8]),
    Elsewhere(Held),
}

/// In memory of its own: one piece, however many headers there are. Most answers are never asked for again, and whoever lets go of one finds its
/// memory where the processor has long forgotten it: each further piece would be waited for.
#[derive(Debug, Clone)]
pub(super) enum Held {
    /// A success without status and headers, as `once` records it, and so short that each caller gets a copy: a count of
    /// those who hold it would take memory of its own, and be as far away.
    Short(Box<[u8]>),
    /// Bytes that came over a connection are a part of the buffer they were read into, and would keep all of it; these are alone.
    Sealed(Bytes),
}

/// Up to so many bytes an answer is copied rather than shared.
const SHORT: usize = 1024;
/// What a sealed answer takes beside its bytes, once it was asked for.
const AROUND: usize = 64;

impl<'a> Kept<'a> {
    /// `None` for what the gate does not keep: answers whose body lies elsewhere or is gone, or that could not be read again.
    pub(super) fn of(replay: &'a Replay) -> Option<Self> {
        let Recorded::Whole(outcome) = &replay.answer else { return None };
        if outcome.headers.len() > MOST_HEADERS {
            return None;
        }
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
                Self::Elsewhere(Held::Sealed(seal_answer(outcome, replay.asked_first.as_ref())))
            }
            Body::Stored { .. } => return None,
        })
    }

    /// The bytes that the recorded answer itself takes.
    pub(super) const fn weight(&self) -> usize {
        match self {
            Self::Beside(bytes) => bytes.len(),
            Self::Elsewhere(held) => held.weight(),
        }
    }
}

impl Held {
    /// The answer, and who asked first.
    pub(super) fn opened(self) -> Option<(Outcome, Option<Arc<str>>)> {
        match self {
            Self::Short(bytes) => Some((Outcome::success(Bytes::from(bytes)), None)),
            Self::Sealed(bytes) => open_answer(&bytes).ok(),
        }
    }

    pub(super) const fn weight(&self) -> usize {
        match self {
            Self::Short(bytes) => bytes.len(),
            Self::Sealed(bytes) => bytes.len() + AROUND,
        }
    }
}
