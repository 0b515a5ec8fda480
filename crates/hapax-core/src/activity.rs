//! What a provider's answer means to an activity: a call that a run makes outside.

use crate::{Effect, OutcomeClass, meaning::Answers};

/// The class of a provider's answer: as the table of HTTP answers has it, but that 400, 401 and 403 are final and recorded.
/// To a workflow they are answers like any other. What the provider's own rules call retryable is that.
#[must_use]
pub fn answer_class(status: u16, effect: Effect, retryable: &[u16]) -> OutcomeClass {
    if retryable.contains(&status) {
        return OutcomeClass::RetryableFailure;
    }
    match status {
        400 | 401 | 403 => OutcomeClass::FinalFailure,
        _ => Answers::Standard.class(effect, status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_the_class_that_the_table_says() {
        use OutcomeClass::{FinalFailure, RetryableFailure, Success, Unknown};
        for effect in Effect::ALL {
            let careful = matches!(effect, Effect::Compensatable | Effect::Irreversible);
            for status in 0..=1_000_u16 {
                let expected = match status {
                    200..=399 => Success,
                    408 => {
                        if careful {
                            Unknown
                        } else {
                            RetryableFailure
                        }
                    }
                    425 | 429 | 503 => RetryableFailure,
                    502 | 504 => Unknown,
                    400..=499 => FinalFailure,
                    500..=599 => {
                        if careful {
                            Unknown
                        } else {
                            RetryableFailure
                        }
                    }
                    _ => Unknown,
                };
                assert_eq!(answer_class(status, effect, &[]), expected, "{status} of {effect}");
            }
            assert_eq!(answer_class(409, effect, &[409]), RetryableFailure);
        }
    }
}
