//! Which class of outcome goes where: every class, before and after the start, under every preset.

use hapax_core::{OutcomeClass, Preset, policy::Disposition};

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
