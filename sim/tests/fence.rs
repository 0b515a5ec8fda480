//! The epoch fence, in every order of everything.

use std::collections::BTreeMap;

use hapax_core::{Effect, group::is_listed};
use hapax_sim::fence::{Fenced, Rival, search};

/// G1 to G4 of the accidents, and all their relatives: a start that is neither reported nor refused, one that is both, one
/// that is refused and leaves somebody in doubt.
#[test]
fn no_start_slips_between_the_group_and_its_rival() {
    let mut states = 0;
    let mut steps: BTreeMap<&str, u64> = BTreeMap::new();
    for rival in [Rival::Supersede, Rival::Unwind] {
        for first in Effect::ALL {
            for started in [true, false] {
                for second in [None, Some((Effect::Compensatable, true)), Some((Effect::Unsafe, false))] {
                    // Two of a kind are as one; what is worth the time is one that is listed beside one that is not.
                    if second.is_some_and(|(second, _)| is_listed(second) == is_listed(first)) {
                        continue;
                    }
                    let callers: Vec<_> = [Some((first, started)), second].into_iter().flatten().collect();
                    let alone = callers.len() == 1;
                    let fenced = Fenced { callers, rival, faults: 1 + u8::from(alone), crashes: 1, lapses: 1 };
                    match search(&fenced) {
                        Ok(seen) => {
                            states += seen.states;
                            for (step, count) in seen.steps {
                                *steps.entry(step).or_default() += count;
                            }
                        }
                        Err(story) => panic!("{story}"),
                    }
                }
            }
        }
    }
    println!("{states} states, {steps:?}");
    assert!(states > 200_000, "{states}");
    assert_eq!(steps.len(), 9, "some kind of step is never taken: {steps:?}");
}
