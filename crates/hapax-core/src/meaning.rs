//! What an HTTP answer says about the effect behind it.
//!
//! An answer that came says something; one that was made up after the request had left says nothing. The table is a
//! rule like any other: here, pure, and the only copy.

use crate::{Effect, OutcomeClass};

/// How the statuses of answers are read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Answers {
    #[default]
    Standard,
    /// 5xx is an answer like any other and is given again; 408, 425 and 429 leave nothing.
    Stripe,
    /// 429 and every 5xx may be run again, whatever the effect.
    Openwop,
}

impl Answers {
    pub const ALL: [Self; 3] = [Self::Standard, Self::Stripe, Self::Openwop];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Stripe => "stripe",
            Self::Openwop => "openwop",
        }
    }

    /// The class of an answer that the handler or upstream really gave.
    #[must_use]
    pub const fn class(self, effect: Effect, status: u16) -> OutcomeClass {
        match (self, status) {
            (Self::Stripe, 408 | 425 | 429) => OutcomeClass::NotRecordable,
            // What becomes of it is the policy's `retryable_failure`: given again under `stripe`, open under `openwop`.
            (Self::Stripe, 500..=599) | (Self::Openwop, 429 | 500..=599) => OutcomeClass::RetryableFailure,
            (_, 200..=399) => OutcomeClass::Success,
            (_, 400 | 401 | 403) => OutcomeClass::NotRecordable,
            (_, 425 | 429 | 503) => OutcomeClass::RetryableFailure,
            (_, 502 | 504) => OutcomeClass::Unknown,
            (_, 408 | 500..=599) => match effect {
                // The handler's word that a retry is safe.
                Effect::Pure | Effect::Idempotent | Effect::Unsafe => OutcomeClass::RetryableFailure,
                // A word is not enough where a second effect has to be undone, or cannot be.
                Effect::Compensatable | Effect::Irreversible => OutcomeClass::Unknown,
            },
            (_, 402 | 404..=499) => OutcomeClass::FinalFailure,
            // An interim answer, or none that HTTP knows: nobody can say what it means.
            (_, 0..=199 | 600..=u16::MAX) => OutcomeClass::Unknown,
        }
    }
}

/// The class of whatever is answered on behalf of a handler or upstream that gave no answer of its own after the request
/// had reached it. No preset changes it: nobody has said anything.
pub const MADE_UP: OutcomeClass = OutcomeClass::Unknown;

/// The class of an answer whose head came and whose end did not. What leaves nothing leaves nothing without its last words
/// too; of everything else nobody can say whether what it stood for happened.
#[must_use]
pub const fn broken_off(class: OutcomeClass) -> OutcomeClass {
    match class {
        OutcomeClass::NotRecordable | OutcomeClass::NotAdmitted | OutcomeClass::Cancelled => {
            OutcomeClass::NotRecordable
        }
        OutcomeClass::RetryableFailure | OutcomeClass::Success | OutcomeClass::FinalFailure | OutcomeClass::Unknown => {
            MADE_UP
        }
    }
}

/// The class of an answer that its handler calls final, whatever its status means elsewhere.
#[must_use]
pub const fn called_final(status: u16) -> OutcomeClass {
    match status {
        400..=599 => OutcomeClass::FinalFailure,
        _ => OutcomeClass::Success,
    }
}
