//! Whole worlds from a seed each: processes, callers, a provider, and everything that can go wrong; every promise held
//! against what happened.
//!
//! A seed that failed once is kept in `seeds/simulation.txt` for ever and runs first.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use hapax_sim::world::{self, Report};

#[allow(clippy::expect_used, reason = "a test stops where its premise is wrong")]
fn live(seed: u64) -> Report {
    world::run(seed).unwrap_or_else(|error| panic!("no runtime: {error}"))
}

/// The story of a world that broke a promise, and how to see it again.
fn story(report: &Report) -> String {
    let broken = report.violations.join("\n  ");
    format!(
        "seed {} broke a promise:\n  {broken}\nHAPAX_SEED={} cargo test -p hapax-sim --test all simulation::one_seed -- --nocapture",
        report.seed, report.seed
    )
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.trim().parse().ok())
}

/// Kept seeds, one in a line, each with its story behind a `#`.
fn kept() -> Vec<u64> {
    let lines = include_str!("../seeds/simulation.txt").lines();
    lines.filter_map(|line| line.split('#').next()?.trim().parse().ok()).collect()
}

/// What must have happened at least once, or the worlds no longer see what they were made for.
const SOMETIMES: &[&str] = &[
    "begin repeated",
    "clock jumped back",
    "clock jumped forward",
    "crash",
    "disowned",
    "effect applied",
    "effect voided",
    "event Begin",
    "event BeginAgain",
    "event ClaimProbe",
    "event Complete",
    "event Disown",
    "event Evict",
    "event Expire",
    "event Fail",
    "event FailUnknown",
    "event Fenced",
    "event InDoubt",
    "event InFlight",
    "event Lapse",
    "event Mismatch",
    "event Refused",
    "event Reject",
    "event Release",
    "event Renew",
    "event Replay",
    "event Resolve",
    "event Start",
    "event TakeOver",
    "event WindowClosed",
    "fault after",
    "fault before",
    "fault late",
    "fault late conflicted",
    "fault late landed",
    "fault lost read",
    "fault slow",
    "fault stale",
    "gate hit",
    "joined",
    "late",
    "late completion taken",
    "line Hanging",
    "line Refusing",
    "mismatch observed",
    "operator resolved",
    "outcome never told",
    "probe found it applied",
    "probe found the owner gone",
    "probe prevented it",
    "said again",
    "shadow stop",
    "state Absent",
    "state Committed",
    "state InDoubt",
    "state Open",
    "state Pending",
    "state Rejected",
    "state Tombstone",
    "step conflict",
    "step done",
    "step done already",
    "step done late",
    "step error",
    "step fenced",
    "step unheard",
    "told cancelled",
    "told crashed",
    "told elsewhere",
    "told error",
    "told execute",
    "told in doubt",
    "told in flight",
    "told joined failure",
    "told joined replay",
    "told mismatch",
    "told ran",
    "told ran in vain",
    "told refused",
    "told replay",
    "told superseded",
    "told window closed",
    "unrecorded",
    "work AnswerLost",
    "work FailsForGood",
    "work FailsForNow",
    "work NothingHappens",
    "work Panics",
    "work RequestLost",
    "work Succeeds",
];

/// How many fresh seeds the test command lives through.
const SEEDS: u64 = 1_500;

#[test]
fn no_promise_is_broken_in_any_world() {
    let count = from_environment("HAPAX_SEEDS").unwrap_or(SEEDS);
    let seeds: Vec<u64> = kept().into_iter().chain(1..=count).collect();
    let next = AtomicU64::new(0);
    let broken = Mutex::new(Vec::new());
    let covered: Mutex<BTreeMap<String, u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(usize::try_from(next.fetch_add(1, Relaxed)).expect("small")) {
                    let report = live(*seed);
                    if !report.violations.is_empty() {
                        broken.lock().expect("whole").push((*seed, story(&report)));
                    }
                    let mut covered = covered.lock().expect("whole");
                    for (what, times) in report.covered {
                        *covered.entry(what).or_default() += times;
                    }
                }
            });
        }
    });
    let mut broken = broken.into_inner().expect("whole");
    broken.sort();
    let covered = covered.into_inner().expect("whole");
    for (what, times) in &covered {
        println!("{times:>9} {what}");
    }
    let stories: Vec<&str> = broken.iter().map(|(_, story)| story.as_str()).collect();
    assert!(stories.is_empty(), "{} of {} worlds\n{}", stories.len(), seeds.len(), stories.join("\n"));
    if count >= SEEDS {
        let missing: Vec<_> = SOMETIMES.iter().filter(|what| !covered.contains_key(**what)).collect();
        assert!(missing.is_empty(), "never happened in {count} worlds: {missing:?}");
    }
}

/// One seed is one history, byte for byte. Without this a failing seed would be worth nothing.
#[test]
fn the_same_seed_is_the_same_history() {
    for seed in 1..=from_environment("HAPAX_SEEDS").unwrap_or(25).min(25) {
        let (first, second) = (live(seed).trace(), live(seed).trace());
        let differs = first.lines().zip(second.lines()).enumerate().find(|(_, (left, right))| left != right);
        assert!(first == second, "seed {seed} is not one history: {differs:#?}");
    }
}

/// Set `HAPAX_SEED`, and `HAPAX_TRACE` for the whole history.
#[test]
fn one_seed() {
    let Some(seed) = from_environment("HAPAX_SEED") else { return };
    let report = live(seed);
    if std::env::var_os("HAPAX_TRACE").is_some() {
        for (place, entry) in report.history.iter().enumerate() {
            println!("{place:>6} {entry}");
        }
    }
    assert!(report.violations.is_empty(), "{}", story(&report));
}
