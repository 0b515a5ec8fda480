//! Everything that happened in one world, in the one order in which it happened.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hapax_core::{Effect, Id, Record, Stamp, Token, Version};

use super::clock::WorldClock;

/// One entry. `at` is simulated time that never jumps, `clock` the store's, which does.
#[derive(Clone, Debug)]
pub struct Entry {
    pub at: u64,
    pub clock: u64,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// The store accepted a write.
    Write {
        id: Id,
        expected: Version,
        version: Version,
        stamp: Stamp,
        record: Option<Arc<Record>>,
    },
    Call {
        call: usize,
        process: String,
        asked: Asked,
    },
    Told {
        call: usize,
        told: Told,
        joined: bool,
    },
    Step {
        step: usize,
        id: Id,
        token: Token,
        verb: Verb,
        digest: Option<[u8; 32]>,
    },
    Stepped {
        step: usize,
        said: Said,
    },
    /// Something lasting happened at the provider, or was turned away there.
    Effect {
        id: Id,
        token: Token,
        effect: Effect,
        applied: bool,
        enforced: bool,
    },
    /// Somebody other than the owner asked for a second run and takes it upon themselves.
    Leave {
        id: Id,
        token: Token,
    },
    Jump {
        from: u64,
        to: u64,
    },
    Crash {
        process: String,
    },
    Note(String),
}

/// What a begin, in whatever form, was about.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) id: Id,
    pub(super) name: String,
    pub(super) print: u8,
    pub(super) effect: Effect,
    pub(super) how: &'static str,
    /// How long it may wait for another's attempt.
    pub(super) wait: Option<u64>,
    pub(super) enforced: bool,
    /// Whether another print under the same key is an error.
    pub(super) guarded: bool,
}

/// What a begin, in whatever form, was told.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "some of it is only for whoever reads the trace")]
pub(super) enum Told {
    Execute(Token),
    /// `once` ran it and gives its value.
    Ran {
        digests: Vec<[u8; 32]>,
        unrecorded: bool,
    },
    /// `once` ran it, and it came to nothing that was recorded for good.
    RanInVain,
    Replay {
        digests: Vec<[u8; 32]>,
        text: Option<String>,
        joined: bool,
    },
    JoinedFailure(String),
    InFlight,
    InDoubt,
    Mismatch,
    Refused(String),
    Superseded,
    WindowClosed,
    Error(String),
    /// The caller went away before the answer.
    Cancelled,
    Crashed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    Start,
    Renew,
    Complete,
    Reject,
    Fail,
    Release,
}

#[derive(Clone, Debug)]
#[allow(dead_code, reason = "some of it is only for whoever reads the trace")]
pub(super) enum Said {
    Done {
        already: bool,
        late: bool,
    },
    Fenced,
    Conflict(String),
    Refused(String),
    Error(String),
    /// Cancelled, or crashed.
    Unheard,
}

/// The shared log, and what was noticed on the way.
#[derive(Debug)]
pub(super) struct History {
    clock: Arc<WorldClock>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<Entry>,
    violations: Vec<String>,
    covered: BTreeMap<String, u64>,
    /// Nonces whose ticket somebody was given, and those of begins that only their caller may take up again.
    granted: BTreeSet<[u8; 16]>,
    loose: BTreeSet<[u8; 16]>,
    calls: usize,
    steps: usize,
}

impl History {
    #[must_use]
    pub(super) fn new(clock: Arc<WorldClock>) -> Self {
        Self { clock, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn log(&self, what: What) {
        let (at, clock) = (self.clock.elapsed(), self.clock.stamp().0);
        self.inner().entries.push(Entry { at, clock, what });
    }

    pub(super) fn note(&self, text: impl Into<String>) {
        self.log(What::Note(text.into()));
    }

    pub(super) fn call(&self, process: &str, asked: Asked) -> usize {
        let call = {
            let mut inner = self.inner();
            inner.calls += 1;
            inner.calls
        };
        self.log(What::Call { call, process: process.to_owned(), asked });
        call
    }

    pub(super) fn step(&self, id: Id, token: Token, verb: Verb, digest: Option<[u8; 32]>) -> usize {
        let step = {
            let mut inner = self.inner();
            inner.steps += 1;
            inner.steps
        };
        self.log(What::Step { step, id, token, verb, digest });
        step
    }

    /// The promise first, then the story.
    pub(super) fn violation(&self, text: impl Into<String>) {
        self.inner().violations.push(text.into());
    }

    pub(super) fn cover(&self, what: impl Into<String>) {
        self.cover_many(what, 1);
    }

    pub(super) fn cover_many(&self, what: impl Into<String>, times: u64) {
        if times > 0 {
            *self.inner().covered.entry(what.into()).or_default() += times;
        }
    }

    pub(super) fn granted(&self, token: Token) {
        self.inner().granted.insert(token.nonce.0);
    }

    pub(super) fn loose(&self, nonces: impl IntoIterator<Item = [u8; 16]>) {
        self.inner().loose.extend(nonces);
    }

    #[must_use]
    pub(super) fn may_live(&self, nonce: [u8; 16]) -> bool {
        let inner = self.inner();
        inner.granted.contains(&nonce) || inner.loose.contains(&nonce)
    }

    #[must_use]
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.inner().entries.clone()
    }

    #[must_use]
    pub(super) fn violations(&self) -> Vec<String> {
        self.inner().violations.clone()
    }

    #[must_use]
    pub(super) fn covered(&self) -> BTreeMap<String, u64> {
        self.inner().covered.clone()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9} [{}] ", self.at, self.clock)?;
        match &self.what {
            What::Write { id, expected, version, stamp, record } => {
                write!(f, "write {id:?} {}→{} at {}: ", expected.0, version.0, stamp.0)?;
                match record {
                    None => f.write_str("absent"),
                    Some(record) => write!(f, "{:?} {:?} {:?}", record.token(), record.attempt.end, record.state),
                }
            }
            What::Call { call, process, asked } => {
                let Asked { id, name, print, effect, how, wait, .. } = asked;
                write!(f, "call {call} on {process}: {how} {name} {id:?} print {print} {effect} wait {wait:?}")
            }
            What::Told { call, told, joined } => write!(f, "call {call} told {told:?} joined {joined}"),
            What::Step { step, id, token, verb, .. } => write!(f, "step {step}: {verb:?} {id:?} {token:?}"),
            What::Stepped { step, said } => write!(f, "step {step} told {said:?}"),
            What::Effect { id, token, effect, applied, .. } => {
                write!(f, "effect {effect} {id:?} {token:?} applied {applied}")
            }
            What::Leave { id, token } => write!(f, "leave {id:?} {token:?}"),
            What::Jump { from, to } => write!(f, "clock jumps {from}→{to}"),
            What::Crash { process } => write!(f, "{process} crashes"),
            What::Note(text) => f.write_str(text),
        }
    }
}
