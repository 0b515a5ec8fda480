//! Which clients, which faults, how many of each.

use hapax_core::Effect;

use crate::{bridge::LEASE, model::Knobs};

/// How an attempt that ran comes out, as its owner reports it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// It took effect.
    Complete,
    /// It failed for good, without an effect.
    Reject,
    /// It failed without an effect and may be tried again.
    Fail,
    /// It took effect, and its owner cannot say.
    Unknown,
    /// It did nothing, and its owner gives it back.
    NoEffect,
}

/// What one client does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    pub print: u8,
    /// Begin says that the effect may be under way at once; else *start* comes first.
    pub started: bool,
    pub begins: u8,
    pub renews: u8,
    pub epoch: Option<u64>,
    pub outcomes: &'static [Outcome],
}

/// How often each fault may strike in one history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Budget {
    pub time_outs: u8,
    pub crashes: u8,
    pub resolves: u8,
    pub probes: u8,
    pub evictions: u8,
    pub supersedes: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Size {
    /// For the ordinary tests.
    Small,
    /// For the test command.
    Test,
    /// For a soak run.
    Long,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub name: &'static str,
    pub size: Size,
    pub class: Effect,
    pub knobs: Knobs,
    /// For how long, from the first attempt on, the provider answers the key as it did the first time.
    pub honoured: Option<i64>,
    pub clients: Vec<Program>,
    pub budget: Budget,
}

const KNOBS: Knobs =
    Knobs { lease: LEASE, success: 100, failure: 60, open: 30, tombstone: 200, stale: false, refuse: false };

const ALL: &[Outcome] = &[Outcome::Complete, Outcome::Reject, Outcome::Fail, Outcome::Unknown, Outcome::NoEffect];
const MOST: &[Outcome] = &[Outcome::Complete, Outcome::Fail, Outcome::Unknown];
const DONE: &[Outcome] = &[Outcome::Complete];
/// A call that takes effect, and may leave a doubt behind.
const LOST: &[Outcome] = &[Outcome::Complete, Outcome::Unknown];
/// What a call may say of itself while an earlier one is in doubt.
const BESIDE: &[Outcome] = &[Outcome::Fail, Outcome::NoEffect];
/// Longer than a lease, so that there is time for another call after a lapse, and shorter than two: one that lapses too
/// reaches beyond it.
const WINDOW: i64 = 15;

const fn client(started: bool, begins: u8, outcomes: &'static [Outcome]) -> Program {
    Program { print: 1, started, begins, renews: 0, epoch: None, outcomes }
}

fn faults(time_outs: u8, crashes: u8) -> Budget {
    Budget { time_outs, crashes, ..Budget::default() }
}

/// Every configuration, the smallest first.
#[must_use]
pub fn configs() -> Vec<Config> {
    let mut all = small();
    all.extend(test());
    all.extend(long());
    all
}

fn small() -> Vec<Config> {
    let config = |name, class, clients, budget| Config {
        name,
        size: Size::Small,
        class,
        knobs: KNOBS,
        honoured: None,
        clients,
        budget,
    };
    vec![
        config(
            "unsafe-started",
            Effect::Unsafe,
            vec![client(true, 1, ALL), client(true, 1, DONE)],
            Budget { resolves: 1, evictions: 1, ..faults(2, 1) },
        ),
        config(
            "unsafe-admitted",
            Effect::Unsafe,
            vec![client(false, 1, MOST), Program { print: 2, ..client(false, 1, DONE) }],
            faults(2, 1),
        ),
        config(
            "idempotent",
            Effect::Idempotent,
            vec![client(true, 1, MOST), client(true, 1, DONE)],
            Budget { evictions: 1, ..faults(2, 0) },
        ),
        config(
            "epochs",
            Effect::Unsafe,
            vec![
                Program { epoch: Some(1), ..client(false, 1, DONE) },
                Program { epoch: Some(2), print: 2, ..client(false, 1, DONE) },
            ],
            Budget { supersedes: 1, ..faults(1, 1) },
        ),
        Config {
            honoured: Some(WINDOW),
            ..config(
                "provider's-window",
                Effect::Irreversible,
                vec![client(true, 2, LOST), client(false, 1, BESIDE)],
                Budget::default(),
            )
        },
    ]
}

fn test() -> Vec<Config> {
    let config = |name, class, clients, budget| Config {
        name,
        size: Size::Test,
        class,
        knobs: KNOBS,
        honoured: None,
        clients,
        budget,
    };
    vec![
        config(
            "two-of-unsafe",
            Effect::Unsafe,
            vec![client(true, 2, MOST), client(true, 1, ALL)],
            Budget { resolves: 1, ..faults(1, 1) },
        ),
        config(
            "two-admitted",
            Effect::Unsafe,
            vec![client(false, 2, MOST), Program { print: 2, ..client(false, 1, ALL) }],
            Budget { resolves: 1, ..faults(1, 1) },
        ),
        config(
            "late-writes",
            Effect::Unsafe,
            vec![client(false, 1, DONE), client(true, 1, MOST)],
            Budget { resolves: 1, ..faults(4, 1) },
        ),
        config(
            "three-clients",
            Effect::Unsafe,
            vec![client(true, 1, MOST), client(true, 1, MOST), client(true, 1, MOST)],
            faults(2, 1),
        ),
        config(
            "three-admitted-idempotent",
            Effect::Idempotent,
            vec![client(false, 1, DONE), client(false, 1, DONE), client(true, 1, DONE)],
            faults(1, 0),
        ),
        config(
            "probes",
            Effect::Compensatable,
            vec![client(true, 1, MOST), client(false, 1, DONE)],
            Budget { probes: 1, ..faults(2, 1) },
        ),
        Config {
            knobs: Knobs { refuse: true, ..KNOBS },
            ..config(
                "irreversible-window",
                Effect::Irreversible,
                vec![Program { renews: 1, ..client(true, 1, ALL) }, client(true, 2, DONE)],
                Budget { evictions: 1, ..faults(2, 1) },
            )
        },
        Config {
            knobs: Knobs { stale: true, ..KNOBS },
            ..config(
                "stale",
                Effect::Unsafe,
                vec![Program { renews: 1, ..client(true, 1, MOST) }, client(false, 1, ALL)],
                Budget { resolves: 1, ..faults(2, 1) },
            )
        },
        Config {
            honoured: Some(WINDOW),
            ..config(
                "provider's-window-crash",
                Effect::Unsafe,
                vec![client(true, 2, LOST), client(true, 1, BESIDE)],
                Budget { resolves: 1, ..faults(0, 1) },
            )
        },
        Config {
            honoured: Some(WINDOW),
            ..config(
                "provider's-window-lost-reply",
                Effect::Unsafe,
                vec![client(true, 1, LOST), client(false, 2, BESIDE)],
                faults(1, 0),
            )
        },
        Config {
            honoured: Some(WINDOW),
            ..config(
                "provider's-window-epochs",
                Effect::Compensatable,
                vec![
                    Program { epoch: Some(1), ..client(true, 1, LOST) },
                    Program { epoch: Some(1), ..client(false, 1, BESIDE) },
                    Program { epoch: Some(2), ..client(false, 1, DONE) },
                ],
                Budget { supersedes: 1, ..Budget::default() },
            )
        },
        config(
            "two-epochs",
            Effect::Unsafe,
            vec![
                Program { epoch: Some(1), ..client(false, 2, MOST) },
                Program { epoch: Some(2), print: 2, ..client(false, 1, MOST) },
            ],
            Budget { supersedes: 1, ..faults(2, 1) },
        ),
        config(
            "epochs-started",
            Effect::Unsafe,
            vec![
                Program { epoch: Some(1), ..client(true, 1, MOST) },
                Program { epoch: Some(1), ..client(false, 1, MOST) },
                Program { epoch: Some(2), print: 2, ..client(false, 1, DONE) },
            ],
            Budget { supersedes: 1, ..faults(1, 1) },
        ),
    ]
}

fn long() -> Vec<Config> {
    let config = |name, class, clients, budget| Config {
        name,
        size: Size::Long,
        class,
        knobs: KNOBS,
        honoured: None,
        clients,
        budget,
    };
    vec![
        Config {
            honoured: Some(WINDOW),
            ..config(
                "long-provider's-window",
                Effect::Irreversible,
                vec![client(true, 2, ALL), client(false, 1, ALL)],
                Budget { resolves: 1, ..faults(0, 1) },
            )
        },
        config(
            "long-two-of-unsafe",
            Effect::Unsafe,
            vec![client(true, 2, ALL), client(true, 2, ALL)],
            Budget { resolves: 1, ..faults(2, 1) },
        ),
        config(
            "long-two-admitted",
            Effect::Unsafe,
            vec![client(false, 2, MOST), Program { print: 2, ..client(false, 1, ALL) }],
            Budget { resolves: 1, ..faults(2, 1) },
        ),
        config(
            "long-three-admitted-idempotent",
            Effect::Idempotent,
            vec![client(false, 1, MOST), client(false, 1, MOST), client(true, 1, DONE)],
            faults(2, 0),
        ),
        config(
            "long-probes",
            Effect::Compensatable,
            vec![client(true, 1, ALL), client(false, 1, MOST)],
            Budget { probes: 1, resolves: 1, ..faults(2, 1) },
        ),
        Config {
            knobs: Knobs { stale: true, ..KNOBS },
            ..config(
                "long-stale",
                Effect::Unsafe,
                vec![Program { renews: 1, ..client(true, 1, ALL) }, client(false, 2, MOST)],
                Budget { resolves: 2, ..faults(2, 1) },
            )
        },
        config(
            "long-unsafe",
            Effect::Unsafe,
            vec![client(true, 2, ALL), client(false, 2, ALL)],
            Budget { resolves: 2, evictions: 1, ..faults(3, 1) },
        ),
        config(
            "long-three",
            Effect::Unsafe,
            vec![client(true, 1, ALL), client(false, 1, ALL), Program { print: 2, ..client(false, 1, MOST) }],
            Budget { resolves: 1, ..faults(2, 2) },
        ),
        config(
            "long-late",
            Effect::Unsafe,
            vec![client(false, 2, MOST), client(false, 1, MOST)],
            Budget { resolves: 1, ..faults(5, 1) },
        ),
        config(
            "long-idempotent",
            Effect::Idempotent,
            vec![client(false, 2, ALL), client(true, 2, MOST)],
            Budget { evictions: 1, ..faults(3, 1) },
        ),
    ]
}
