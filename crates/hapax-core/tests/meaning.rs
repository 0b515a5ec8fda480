//! The table *What an answer means*, for every status, every class of effect and every reading of statuses. A wrong entry
//! runs a charge twice, or refuses for ever what was safe to retry. What the record then becomes is tested with the HTTP
//! layer.

use hapax_core::{
    Effect,
    OutcomeClass::{self, FinalFailure, NotRecordable, RetryableFailure, Success, Unknown},
    Preset,
    meaning::{Answers, MADE_UP},
};

/// The table as it is written in the specification, row by row, and nothing clever.
fn table(effect: Effect, status: u16) -> OutcomeClass {
    let lasting = matches!(effect, Effect::Compensatable | Effect::Irreversible);
    let row_three = [425, 429, 503];
    let row_five = [502, 504];
    if (100..200).contains(&status) {
        return Unknown;
    }
    if (200..400).contains(&status) {
        return Success;
    }
    if [400, 401, 403].contains(&status) {
        return NotRecordable;
    }
    if row_three.contains(&status) {
        return RetryableFailure;
    }
    if row_five.contains(&status) {
        return Unknown;
    }
    if status == 408 || status >= 500 {
        return if lasting { Unknown } else { RetryableFailure };
    }
    FinalFailure
}

#[test]
fn every_status_means_what_the_table_says() {
    for effect in Effect::ALL {
        for status in 100..=599 {
            assert_eq!(Answers::Standard.class(effect, status), table(effect, status), "{effect} {status}");
        }
    }
}

/// Stripe gives a 5xx again, so it must be recorded for every class; 408, 425 and 429 leave nothing.
#[test]
fn stripe_reads_5xx_as_answers_and_three_4xx_as_nothing() {
    for effect in Effect::ALL {
        for status in 100..=599 {
            let expected = match status {
                408 | 425 | 429 => NotRecordable,
                500..=599 => RetryableFailure,
                _ => table(effect, status),
            };
            assert_eq!(Answers::Stripe.class(effect, status), expected, "{effect} {status}");
        }
    }
}

/// OpenWOP demands that 429 and every 5xx are run again, for every class.
#[test]
fn openwop_runs_429_and_every_5xx_again() {
    for effect in Effect::ALL {
        for status in 100..=599 {
            let expected = if status == 429 || status >= 500 { RetryableFailure } else { table(effect, status) };
            assert_eq!(Answers::Openwop.class(effect, status), expected, "{effect} {status}");
        }
    }
}

/// A gateway that makes an answer up has heard nothing, so no preset may take it for the upstream's word.
#[test]
fn what_is_made_up_is_unknown_and_so_is_what_http_does_not_know() {
    assert_eq!(MADE_UP, Unknown);
    for answers in Answers::ALL {
        for effect in Effect::ALL {
            for status in (0..100).chain(600..=u16::MAX) {
                assert_eq!(answers.class(effect, status), Unknown, "{answers:?} {effect} {status}");
            }
        }
    }
}

#[test]
fn each_preset_reads_statuses_in_its_way() {
    for preset in Preset::ALL {
        let expected = match preset {
            Preset::Stripe => Answers::Stripe,
            Preset::Openwop => Answers::Openwop,
            Preset::Standard
            | Preset::Activity
            | Preset::Job
            | Preset::Run
            | Preset::Bus
            | Preset::Api
            | Preset::Beat
            | Preset::Tool
            | Preset::A2a => Answers::Standard,
        };
        assert_eq!(preset.policy().answers, expected, "{}", preset.name());
    }
}
