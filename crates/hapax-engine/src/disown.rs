//! A begin whose fate stays unknown is taken back by a write, so that it can poison nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use hapax_core::{Command, Nonce, Version};

use tokio::runtime::Handle;

use crate::{call::Prepared, engine::Engine};

/// How long taking back is tried at least, and how many go on trying after that, until the store is back: what has
/// landed and is not taken back ends in doubt, although nothing ran.
const GIVE_UP_AFTER: Duration = Duration::from_secs(600);
const MOST_PATIENT: usize = 100_000;

/// The version against which a begin's write was sent and not answered, if there is one.
#[derive(Debug)]
pub(crate) struct Sent(AtomicU64);

/// No store has so many versions.
const NOTHING: u64 = u64::MAX;

impl Sent {
    pub(crate) const fn nothing() -> Self {
        Self(AtomicU64::new(NOTHING))
    }

    pub(crate) fn set(&self, expected: Version) {
        self.0.store(expected.0, Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.0.store(NOTHING, Relaxed);
    }
}

/// One of those that try to take something back.
struct Trying(Arc<AtomicUsize>);

impl Trying {
    fn among(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Relaxed);
        Self(Arc::clone(all))
    }

    fn few(&self) -> bool {
        self.0.load(Relaxed) <= MOST_PATIENT
    }
}

impl Drop for Trying {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A begin that its caller has not been answered. Dropped half-way, nobody will ever be, so it is taken back.
pub(crate) struct Unanswered<'a> {
    engine: &'a Engine,
    prepared: &'a Prepared,
    nonce: Nonce,
    pub(crate) sent: Sent,
}

impl<'a> Unanswered<'a> {
    pub(crate) const fn new(engine: &'a Engine, prepared: &'a Prepared, nonce: Nonce) -> Self {
        Self { engine, prepared, nonce, sent: Sent::nothing() }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let sent = *self.sent.0.get_mut();
        if sent != NOTHING {
            self.engine.disown_later(self.prepared, self.nonce, Version(sent));
        }
    }
}

impl Engine {
    /// Takes the begin back in the background: its own record, or the version against which it was sent.
    ///
    /// A future may be dropped outside of any runtime, so the one that the engine was first used on serves as well.
    /// Where that is gone too, the process is on its way out, and what landed lapses.
    pub(crate) fn disown_later(&self, prepared: &Prepared, nonce: Nonce, expected: Version) {
        let runtime = Handle::try_current().ok().or_else(|| self.inner.runtime.get().cloned());
        let Some(runtime) = runtime else { return };
        // Between two tries nothing holds the engine: whoever lets go of it can open its store again.
        let engine = Arc::downgrade(&self.inner);
        let trying = Trying::among(&self.inner.disowning);
        let mut wait = self.inner.settings.store_backoff;
        let prepared = prepared.clone();
        runtime.spawn(async move {
            let mut waited = Duration::ZERO;
            while waited < GIVE_UP_AFTER || trying.few() {
                let Some(inner) = engine.upgrade() else { return };
                let tried = async {
                    let seen = inner.read(&prepared.id).await?;
                    let command = Command::Disown { nonce, expected };
                    inner.carry(&prepared.policy, &prepared.id, seen, prepared.about(&inner), &command).await?;
                    Ok::<(), hapax_store::StoreError>(())
                };
                match tried.await {
                    Err(error) if error.may_pass() => {}
                    Ok(()) | Err(_) => return,
                }
                drop(inner);
                tokio::time::sleep(wait).await;
                waited += wait;
                wait = wait.saturating_mul(2).min(Duration::from_secs(10));
            }
        });
    }
}
