//! Histories from real threads can be told as one thing after the other; and whoever says so can tell when they cannot.

use hapax_core::Effect;
use hapax_sim::{
    histories,
    linear::{Heard, Op, Verdict, check},
    model::{Begin, Cmd},
    sequences,
};

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.trim().parse().ok())
}

#[test]
fn recorded_histories_are_linearizable() {
    let count = from_environment("HAPAX_SEEDS").unwrap_or(200);
    let (mut operations, mut unknown, mut undecided) = (0, 0, 0);
    for seed in 1..=count {
        let history = histories::record(seed).expect("a history");
        operations += history.len();
        unknown += history.iter().filter(|op| op.answered.is_none()).count();
        match check(&history) {
            Verdict::Linearizable => {}
            Verdict::Undecided => undecided += 1,
            Verdict::Impossible => panic!("no order explains seed {seed}:\n{history:#?}"),
        }
    }
    println!("{count} histories, {operations} operations, {unknown} of them unanswered, {undecided} undecided");
    assert!(operations > 0 && (unknown > 0 || count < 100), "the histories have lost their faults");
    assert!(undecided * 50 <= count, "{undecided} of {count} histories could not be decided");
}

fn begin(nonce: u8) -> Cmd {
    let (class, print, started) = (Effect::Unsafe, 1, true);
    Cmd::Begin(Begin { nonce, print, class, started, epoch: None, admitted: true, room: true, honoured: None })
}

fn op(cmd: Cmd, called: u64, answered: u64, heard: Heard) -> Op {
    Op { cmd, called, answered: Some((answered, heard)) }
}

fn lost(cmd: Cmd, called: u64) -> Op {
    Op { cmd, called, answered: None }
}

#[test]
fn impossible_histories_are_refuted() {
    let first = (1, 1);
    let replay = Heard::Replay { what: 7, rejected: false };
    let impossible = [
        // Two owners.
        vec![op(begin(1), 0, 1, Heard::Execute((1, 1))), op(begin(2), 2, 3, Heard::Execute((1, 2)))],
        // Two owners, although both asked at once.
        vec![op(begin(1), 0, 5, Heard::Execute((1, 1))), op(begin(2), 1, 4, Heard::Execute((1, 2)))],
        // An answer before anybody gave it.
        vec![
            op(begin(1), 0, 1, Heard::Execute(first)),
            op(begin(2), 2, 3, replay),
            op(Cmd::Complete(first, 7), 4, 5, Heard::Done),
        ],
        // An acknowledged completion is not seen.
        vec![
            op(begin(1), 0, 1, Heard::Execute(first)),
            op(Cmd::Complete(first, 7), 2, 3, Heard::Done),
            op(begin(2), 4, 5, Heard::InFlight),
        ],
        // An acknowledged completion is forgotten.
        vec![
            op(begin(1), 0, 1, Heard::Execute(first)),
            op(Cmd::Complete(first, 7), 2, 3, Heard::Done),
            op(begin(2), 4, 5, Heard::Execute((2, 2))),
        ],
        // The answer changes.
        vec![
            op(begin(1), 0, 1, Heard::Execute(first)),
            op(Cmd::Complete(first, 7), 2, 3, Heard::Done),
            op(begin(2), 4, 5, Heard::Replay { what: 8, rejected: false }),
        ],
        // A token that counts is refused.
        vec![op(begin(1), 0, 1, Heard::Execute(first)), op(Cmd::Complete(first, 7), 2, 3, Heard::Fenced)],
        // A doubt opens by itself.
        vec![
            op(begin(1), 0, 1, Heard::Execute(first)),
            op(Cmd::FailUnknown(first), 2, 3, Heard::Done),
            op(begin(2), 4, 5, Heard::Execute((2, 2))),
        ],
        // What nobody answered was seen to have happened, and then not to have happened.
        vec![
            op(begin(1), 0, 1, Heard::Execute(first)),
            lost(Cmd::Complete(first, 7), 2),
            op(begin(2), 3, 4, replay),
            op(begin(3), 5, 6, Heard::InFlight),
        ],
    ];
    for history in impossible {
        assert_eq!(check(&history), Verdict::Impossible, "{history:#?}");
    }
}

#[test]
fn possible_histories_are_accepted() {
    let first = (1, 1);
    let replay = Heard::Replay { what: 7, rejected: false };
    let possible = [
        // Asked at once: the second may have come first.
        vec![op(begin(1), 0, 5, Heard::InFlight), op(begin(2), 1, 4, Heard::Execute((1, 2)))],
        // An unanswered completion may have happened, late, or never.
        vec![op(begin(1), 0, 1, Heard::Execute(first)), lost(Cmd::Complete(first, 7), 2), op(begin(2), 3, 4, replay)],
        vec![
            op(begin(1), 0, 1, Heard::Execute(first)),
            lost(Cmd::Complete(first, 7), 2),
            op(begin(2), 3, 4, Heard::InFlight),
            op(begin(3), 5, 6, replay),
        ],
        vec![
            op(begin(1), 0, 1, Heard::Execute(first)),
            lost(Cmd::Complete(first, 7), 2),
            op(begin(2), 3, 4, Heard::InFlight),
        ],
        // Carried out, the answer lost, said again after another had begun.
        vec![
            op(begin(1), 0, 1, Heard::Execute(first)),
            op(Cmd::Fail(first, 9), 2, 9, Heard::Fenced),
            op(begin(2), 3, 4, Heard::Execute((2, 2))),
        ],
        // The same nonce again.
        vec![lost(begin(1), 0), op(begin(1), 1, 2, Heard::Execute(first)), op(begin(2), 3, 4, Heard::InFlight)],
    ];
    for history in possible {
        assert_eq!(check(&history), Verdict::Linearizable, "{history:#?}");
    }
}

/// The whole engine against the naive model, one command after the other.
#[test]
fn random_sequences_agree_with_the_model() {
    for seed in 1..=from_environment("HAPAX_SEEDS").unwrap_or(2_000) {
        if let Err(story) = sequences::run(seed) {
            panic!("seed {seed}: {story}");
        }
    }
}
