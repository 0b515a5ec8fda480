//! One process: an engine, its line to the store, and its death.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Poll, Waker},
};

use hapax_core::{Cause, Nonce};
use hapax_engine::{Engine, Entropy, EntropyError, SeededEntropy, Settings, Sweeper};

use super::{history::History, line::Line};

/// A process that has crashed does nothing more, and whoever waits inside it never learns anything.
#[derive(Debug, Default)]
pub(super) struct Death {
    dead: AtomicBool,
    mourners: Mutex<Vec<Waker>>,
}

impl Death {
    #[must_use]
    pub(super) fn has_come(&self) -> bool {
        self.dead.load(Relaxed)
    }

    pub(super) fn come(&self) {
        self.dead.store(true, Relaxed);
        let mourners = std::mem::take(&mut *self.mourners.lock().unwrap_or_else(PoisonError::into_inner));
        for waker in mourners {
            waker.wake();
        }
    }

    /// Woken when the process dies.
    pub(super) fn mourn(&self, waker: &Waker) {
        let mut mourners = self.mourners.lock().unwrap_or_else(PoisonError::into_inner);
        if !mourners.iter().any(|known| known.will_wake(waker)) {
            mourners.push(waker.clone());
        }
    }

    /// Runs it as part of the process: from its death on it stands still for ever.
    pub(super) async fn until<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| if self.has_come() { Poll::Pending } else { work.as_mut().poll(context) }).await
    }
}

/// Seeded, and remembers which nonces it gave out.
#[derive(Debug)]
pub(super) struct KnownEntropy {
    seeded: SeededEntropy,
    nonces: Mutex<Vec<[u8; 16]>>,
}

impl KnownEntropy {
    #[must_use]
    pub(super) fn new(seed: u64) -> Self {
        Self { seeded: SeededEntropy::new(seed), nonces: Mutex::default() }
    }

    #[must_use]
    pub(super) fn nonces(&self) -> Vec<[u8; 16]> {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Entropy for KnownEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        self.seeded.fill(bytes)
    }

    fn nonce(&self) -> Result<Nonce, EntropyError> {
        let nonce = self.seeded.nonce()?;
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner).push(nonce.0);
        Ok(nonce)
    }
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) engine: Engine,
    pub(super) line: Arc<Line>,
    pub(super) entropy: Arc<KnownEntropy>,
    pub(super) death: Arc<Death>,
    pub(super) settings: Settings,
    pub(super) sweeper: Mutex<Option<Sweeper>>,
}

impl Process {
    /// What must hold in every process at every moment.
    pub(super) fn check_bounds(&self, history: &History) {
        // The gate is cut into sixteen parts, each with its share rounded up.
        let part = |whole: usize| whole.div_ceil(16).max(1) * 16;
        let (entries, bytes) = (self.engine.gate().len(), self.engine.gate().bytes());
        if entries > part(self.settings.gate.entries) || bytes > part(self.settings.gate.bytes) {
            history.violation(format!("13: the gate of {} holds {entries} entries, {bytes} bytes", self.name));
        }
        let waiting = self.engine.waiting();
        if waiting > self.settings.waiters {
            history.violation(format!("13: {waiting} wait in {}, at most {}", self.name, self.settings.waiters));
        }
        // Counting a large ring means copying it.
        let events =
            if self.settings.events < 100 { self.engine.events().after(0).map_or(0, |events| events.len()) } else { 0 };
        if events > self.settings.events {
            history.violation(format!("13: {} keeps {events} events, at most {}", self.name, self.settings.events));
        }
    }

    /// What this process has seen, for the question whether the worlds see everything.
    pub(super) fn report(&self, history: &History) {
        for logged in self.engine.events().after(0).unwrap_or_default() {
            let event = &logged.event;
            history.cover(format!("event {:?}", event.cause));
            if event.late && event.cause == Cause::Complete {
                history.cover("late completion taken");
            }
            if event.mismatch_observed {
                history.cover("mismatch observed");
            }
        }
        let stats = self.engine.stats();
        history.cover_many("joined", stats.joined);
        history.cover_many("gate hit", stats.gate_hits);
        history.cover_many("disowned", stats.disowned);
        history.cover_many("late", stats.late);
        history.cover_many("unrecorded", stats.unrecorded);
        history.cover_many("shadow stop", stats.shadow_stops);
        let met = self.line.faulty().injected();
        history.cover_many("fault before", met.before);
        history.cover_many("fault after", met.after);
        history.cover_many("fault late", met.late);
        history.cover_many("fault late landed", met.late_landed);
        history.cover_many("fault late conflicted", met.late_conflicted);
        history.cover_many("fault lost read", met.lost_reads);
        history.cover_many("fault slow", met.slow);
        history.cover_many("fault stale", met.stale);
    }
}
