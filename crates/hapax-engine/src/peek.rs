//! A look before the write: what a begin would be told, if it would be told anything but *run it*.

use hapax_core::{
    Command, Fingerprint, Moment, Nonce, Reply, Verdict, Write, apply, as_read,
    command::{Admit, Begin},
    identity::Scheme,
    policy::{FingerprintMode, Mode},
};
use std::sync::Arc;
use tokio::time::Instant;

use crate::{
    begin::{Begun, Replayed},
    call::{Call, Prepared},
    engine::Engine,
    error::EngineError,
    stats::count,
};

impl Call {
    /// Answers from the gate, or from one read, what is decided, under way (waiting as the policy says) or in doubt,
    /// without a write. `None`: as things stand a begin would run it, so begin.
    ///
    /// For callers that fetch something costly between the look and the begin, such as a connection. In shadow mode
    /// there is nothing to be told.
    pub async fn peek(&self) -> Result<Option<Begun>, EngineError> {
        let prepared = self.known()?;
        match prepared.policy.mode {
            Mode::Enforce => {
                let since = Instant::now();
                let peeked = match self.engine.at_hand(prepared, prepared.fingerprint.as_ref()) {
                    Some(replayed) => Ok(Some(Begun::Replay(replayed))),
                    None => self.engine.peek(prepared).await,
                };
                self.engine.inner.tally.peeked(&peeked, prepared.key_kind, since.elapsed());
                peeked
            }
            Mode::Shadow => Ok(None),
        }
    }

    /// The recorded answer, if this process has it at hand and a part of the print says for certain that it is the answer to this
    /// request. For callers to whom the rest of the fingerprint costs something: it is not needed then, and without an answer at hand
    /// no part is asked for. `print` is told the schemes of the one that it is compared with.
    #[must_use]
    pub fn at_hand(&self, print: impl FnOnce(&[Scheme]) -> Option<Fingerprint>) -> Option<Replayed> {
        let prepared = self.prepared.as_ref().ok()?;
        if prepared.policy.mode != Mode::Enforce {
            return None;
        }
        let schemes = self.engine.inner.gate.schemes(&prepared.id)?;
        let is_compared = prepared.policy.fingerprint.mode != FingerprintMode::Off;
        let print = if is_compared { Some(print(&schemes)?) } else { None };
        let since = Instant::now();
        let replayed = self.engine.at_hand(prepared, print.as_ref())?;
        self.engine.inner.tally.replayed(prepared.key_kind, since.elapsed());
        Some(replayed)
    }

    /// Whether there is nothing under its key, as far as the store can say: no attempt of it can have had an effect.
    /// Where nobody can say, it may have been used.
    pub async fn is_unused(&self) -> bool {
        let Ok(prepared) = &self.prepared else { return false };
        let inner = &*self.engine.inner;
        match (prepared.policy.mode, inner.read(&prepared.id).await) {
            (Mode::Enforce, Ok(seen)) => {
                let now = inner.now(&seen);
                seen.record.as_deref().is_none_or(|record| as_read(record, now).is_none())
            }
            // What ran in the shadow ran, whatever stands in the way of this one.
            (Mode::Shadow, _) | (Mode::Enforce, Err(_)) => false,
        }
    }
}

impl Engine {
    /// From the gate alone.
    pub(crate) fn at_hand(&self, prepared: &Prepared, print: Option<&Fingerprint>) -> Option<Replayed> {
        let inner = &*self.inner;
        let replay = inner.gate.look_up_at(&prepared.id, print, || inner.store_now())?;
        count(&inner.counters.gate_hits);
        count(&inner.counters.replayed);
        Some(Replayed { replay, joined: false })
    }

    async fn peek(&self, prepared: &Prepared) -> Result<Option<Begun>, EngineError> {
        let inner = &*self.inner;
        let seen = inner.read(&prepared.id).await?;
        if seen.record.is_none() {
            return Ok(None);
        }
        // The rules judge a begin; what it would write is thrown away, so this nonce is never anybody's.
        let begin = Begin {
            nonce: Nonce([0; 16]),
            fingerprint: prepared.fingerprint.clone(),
            effect: prepared.effect,
            lease: prepared.lease,
            owner: Arc::clone(&inner.owner),
            started: prepared.started,
            epoch: prepared.epoch,
            admit: Admit::Yes,
            room: Admit::Yes,
            about: Arc::clone(prepared.about(inner)),
            ties: prepared.ties.clone(),
        };
        let moment = Moment { now: inner.now(&seen), wall: inner.wall_now() };
        let step = apply(&prepared.policy, seen.current(), Command::Begin(begin), moment);
        let verdict = match (&step.write, &step.reply) {
            (Write::Nothing, Reply::Verdict(verdict)) => Verdict::clone(verdict),
            (Write::Nothing | Write::Put(_) | Write::Remove, _) => return Ok(None),
        };
        inner.tell(&prepared.id, prepared.about(inner), &step, moment.wall, None);
        self.told(prepared, seen, verdict).await.map(Some).map_err(|unsure| unsure.error)
    }
}
