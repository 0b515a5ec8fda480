//! The small configurations of the exhaustive checker, as an ordinary test.

use std::collections::BTreeSet;

use hapax_sim::checker::{Size, configs, search};

/// Every state that two clients, two time-outs, a crash, an operator and an eviction can lead one key to.
#[test]
fn model_small() {
    let reports: Vec<_> = std::thread::scope(|scope| {
        let searches: Vec<_> = configs()
            .into_iter()
            .filter(|config| config.size == Size::Small)
            .map(|config| scope.spawn(move || search(&config, None)))
            .collect();
        searches.into_iter().filter_map(|search| search.join().ok()).collect()
    });
    assert_eq!(reports.len(), 5);
    let mut states = 0;
    let mut steps = BTreeSet::new();
    for report in reports {
        println!("{report}");
        if let Some(violation) = report.violation {
            panic!("{violation}");
        }
        states += report.states;
        steps.extend(report.steps.into_keys());
    }
    for step in [
        "reply lost",
        "write lost",
        "time-out in flight",
        "land late",
        "disown",
        "give up a start",
        "crash",
        "sweep",
        "evict",
        "resolve",
        "supersede",
        "check the group",
        "wait",
    ] {
        assert!(steps.contains(step), "no history contains `{step}`: the check has become empty there");
    }
    assert!(states > 100_000, "only {states} states: has the world become smaller than it was?");
}
