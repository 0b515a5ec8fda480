//! Effect class × crash point.

use std::collections::BTreeMap;

use hapax_sim::crash_points::run;

/// A process dies before its claim, after it, after its start, after its effect, after its outcome. For each class of
/// effect the record then reads as the rules say, and no effect is repeated without leave.
#[test]
fn every_class_at_every_point_ends_in_the_state_that_the_rules_say() {
    let first = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.trim().parse().ok());
    let seeds = first.map_or(1..=1_000, |seed| seed..=seed);
    let mut covered = BTreeMap::new();
    let mut broken = Vec::new();
    for seed in seeds {
        match run(seed) {
            Ok(case) => *covered.entry(case).or_insert(0_u32) += 1,
            Err(story) => {
                broken.push(format!("{story}\n  HAPAX_SEED={seed} cargo test -p hapax-sim --test all crash_points"));
            }
        }
    }
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken[..broken.len().min(10)].join("\n"));
    println!("{} kinds of death", covered.len());
    assert!(
        first.is_some() || covered.len() == 100,
        "classes × points × in a group or not × honoured or not: {}",
        covered.len()
    );
}
