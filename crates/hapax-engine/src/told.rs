//! What begins are told, counted where all of them pass: those of the API, of a gateway in the same process, and of a
//! program that embeds the engine.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use hapax_core::Verdict;

use crate::{
    begin::{Begun, Unsure},
    error::EngineError,
};

/// What a begin came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    Execute,
    Replay,
    Joined,
    JoinedFailure,
    InFlight,
    Mismatch,
    InDoubt,
    Refused,
    Superseded,
    WindowClosed,
    /// No verdict at all.
    Error,
}

impl Told {
    pub const ALL: [Self; 11] = [
        Self::Execute,
        Self::Replay,
        Self::Joined,
        Self::JoinedFailure,
        Self::InFlight,
        Self::Mismatch,
        Self::InDoubt,
        Self::Refused,
        Self::Superseded,
        Self::WindowClosed,
        Self::Error,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Replay => "replay",
            Self::Joined => "joined",
            Self::JoinedFailure => "joined_failure",
            Self::InFlight => "in_flight",
            Self::Mismatch => "mismatch",
            Self::InDoubt => "in_doubt",
            Self::Refused => "refused",
            Self::Superseded => "superseded",
            Self::WindowClosed => "window_closed",
            Self::Error => "error",
        }
    }

    const fn of(begun: &Begun) -> Self {
        match begun {
            Begun::Execute(_) | Begun::Told(Verdict::Execute(_)) => Self::Execute,
            Begun::Replay(replayed) if replayed.joined => Self::Joined,
            Begun::Replay(_) | Begun::Told(Verdict::Replay(_)) => Self::Replay,
            Begun::JoinedFailure(_) => Self::JoinedFailure,
            Begun::Told(Verdict::InFlight { .. }) => Self::InFlight,
            Begun::Told(Verdict::Mismatch) => Self::Mismatch,
            Begun::Told(Verdict::InDoubt { .. }) => Self::InDoubt,
            Begun::Told(Verdict::Refused(_)) => Self::Refused,
            Begun::Told(Verdict::Fenced) => Self::Superseded,
            Begun::Told(Verdict::WindowClosed { .. }) => Self::WindowClosed,
        }
    }
}

/// Where the key of a call came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyKind {
    /// Whoever calls has named it.
    #[default]
    Given,
    /// Made from the request or from where it stands in a run.
    Automatic,
    /// Made from the messages of a beat.
    Beat,
}

impl KeyKind {
    pub const ALL: [Self; 3] = [Self::Given, Self::Automatic, Self::Beat];

    /// As the metrics of the seed call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "client_provided",
            Self::Automatic => "auto_generated",
            Self::Beat => "beat_based",
        }
    }
}

/// Begins by what they were told, how long that took, and whose keys they had.
#[derive(Debug, Default)]
pub struct Tally {
    verdicts: [Took; Told::ALL.len()],
    keys: [AtomicU64; KeyKind::ALL.len()],
}

#[derive(Debug, Default)]
struct Took {
    within: [AtomicU64; Tally::BOUNDS_MS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Tally {
    /// Upper bounds of how long a begin took, waiting included.
    pub const BOUNDS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000];

    fn count_one(&self, told: Told, kind: KeyKind, took: Duration) {
        let of = &self.verdicts[told as usize];
        let millis = took.as_millis();
        if let Some(at) = Self::BOUNDS_MS.iter().position(|most| millis < u128::from(*most)) {
            of.within[at].fetch_add(1, Relaxed);
        }
        of.count.fetch_add(1, Relaxed);
        of.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
        self.keys[kind as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn begun(&self, begun: &Result<Begun, Unsure>, kind: KeyKind, took: Duration) {
        self.count_one(begun.as_ref().map_or(Told::Error, Told::of), kind, took);
    }

    /// A look counts if it was the answer; otherwise the begin that follows it does.
    pub(crate) fn peeked(&self, peeked: &Result<Option<Begun>, EngineError>, kind: KeyKind, took: Duration) {
        match peeked {
            Ok(Some(begun)) => self.count_one(Told::of(begun), kind, took),
            Ok(None) => {}
            Err(_) => self.count_one(Told::Error, kind, took),
        }
    }

    /// Answered by what was at hand.
    pub(crate) fn replayed(&self, kind: KeyKind, took: Duration) {
        self.count_one(Told::Replay, kind, took);
    }

    #[must_use]
    pub fn count(&self, told: Told) -> u64 {
        self.verdicts[told as usize].count.load(Relaxed)
    }

    /// How many took less than each of the bounds, and more than the one before.
    #[must_use]
    pub fn within(&self, told: Told) -> [u64; Self::BOUNDS_MS.len()] {
        self.verdicts[told as usize].within.each_ref().map(|count| count.load(Relaxed))
    }

    /// How long all of them took together.
    #[must_use]
    pub fn micros(&self, told: Told) -> u64 {
        self.verdicts[told as usize].micros.load(Relaxed)
    }

    #[must_use]
    pub fn keys(&self, kind: KeyKind) -> u64 {
        self.keys[kind as usize].load(Relaxed)
    }
}
