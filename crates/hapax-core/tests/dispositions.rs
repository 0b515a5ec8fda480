//! Which class of outcome goes where: every class, before and after the start, under every preset.

use crate::rules_support::*;
use hapax_core::{
    Command, Effect, OutcomeClass, Preset, Reply, Write,
    command::{Refused, Resolution},
    ending,
    policy::Disposition,
};

use Disposition::{Complete, Fail, FailUnknown, Reject, Release};
use OutcomeClass::{Cancelled, FinalFailure, NotAdmitted, NotRecordable, RetryableFailure, Success, Unknown};

/// Before the start, and after it.
type Row = (OutcomeClass, Disposition, Disposition);

/// What no preset changes.
const ALWAYS: [Row; 5] = [
    (Success, Complete, Complete),
    // The owner's word that nothing happened.
    (NotRecordable, Release, Release),
    (NotAdmitted, Release, FailUnknown),
    (Cancelled, Release, FailUnknown),
    (Unknown, FailUnknown, FailUnknown),
];

const fn failures(preset: Preset) -> [Row; 2] {
    let replayed = (FinalFailure, Reject, Reject);
    match preset {
        Preset::Standard | Preset::Openwop | Preset::Activity | Preset::Job | Preset::Bus => {
            [replayed, (RetryableFailure, Fail, Fail)]
        }
        Preset::Stripe => [replayed, (RetryableFailure, Reject, Reject)],
        Preset::Run | Preset::Api | Preset::Beat | Preset::Tool => [replayed, (RetryableFailure, Release, Fail)],
        Preset::A2a => [(FinalFailure, Release, Fail), (RetryableFailure, Fail, Fail)],
    }
}

/// A caller breaks off after the start and its key is free: whoever comes next makes the effect happen a second time.
#[test]
fn a_class_that_says_nothing_about_the_effect_frees_no_key_after_the_start() {
    for preset in Preset::ALL {
        let policy = preset.policy();
        for (class, before, after) in ALWAYS.into_iter().chain(failures(preset)) {
            assert_eq!(policy.disposition(class, false), before, "{class:?} before the start, {}", preset.name());
            assert_eq!(policy.disposition(class, true), after, "{class:?} after the start, {}", preset.name());
        }
    }
}

/// Whether *complete* and a committing resolution, *reject* and a rejecting one, and *fail* can say a class.
const SPOKEN: [(OutcomeClass, bool, bool, bool); 7] = [
    (Success, true, false, false),
    (FinalFailure, false, true, true),
    (RetryableFailure, false, true, true),
    (NotRecordable, false, false, false),
    (NotAdmitted, false, false, false),
    (Cancelled, false, false, false),
    (Unknown, false, false, true),
];

/// A failure that is completed would be given again as a success; a success that is failed, or work broken off that is, would run
/// again.
#[test]
fn an_outcome_is_said_only_by_a_command_of_its_class() {
    for (class, completes, rejects, fails) in SPOKEN {
        let outcome = || failure(class, 1);
        for (verb, fits) in [completes, rejects, fails, completes, rejects].into_iter().enumerate() {
            let mut cell = Cell::new(Preset::Standard.policy());
            let token = cell.granted(begin(1, Effect::Unsafe));
            let command = match verb {
                0 => Command::Complete { token, outcome: outcome() },
                1 => Command::Reject { token, outcome: outcome() },
                2 => Command::Fail { token, outcome: outcome() },
                3 => resolve(cell.version, Resolution::Committed(outcome())),
                _ => resolve(cell.version, Resolution::Rejected(outcome())),
            };
            let step = cell.decide(command.clone());
            let refused = step.reply == Reply::Refused(Refused::WrongClass(class));
            assert_eq!(refused, !fits, "{command:?}: {:?}", step.reply);
            assert_eq!(step.write == Write::Nothing, !fits, "{command:?}");
        }
    }
}

/// However a policy wants a class to be said, the command can say it.
#[test]
fn every_class_has_a_command_under_every_preset() {
    for preset in Preset::ALL {
        for class in OutcomeClass::ALL {
            for started in [false, true] {
                let mut cell = Cell::new(preset.policy());
                let asked = if started { begin(1, Effect::Unsafe) } else { not_started(1, Effect::Unsafe) };
                let token = cell.granted(asked);
                let command = ending(&cell.policy, cell.current().record, token, &failure(class, 1));
                let reply = cell.decide(command).reply;
                assert!(matches!(reply, Reply::Done(_)), "{class:?} under {}: {reply:?}", preset.name());
            }
        }
    }
}
