//! What may be true of one store at one moment, told from every answer it has given.

use std::collections::BTreeMap;

use hapax_core::{Id, Version};

use super::check::{Halt, Outcome};
use crate::Snapshot;

/// What a caller has been told about one of its writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Under way, or the answer was lost: it may have been applied, and may yet be.
    Open,
    Acknowledged(Version),
    /// It conflicted, was refused, or was disowned by a later write: it must never be seen from here on.
    Dead,
}

/// One write. The nonce is in its payload, or, for removals, in nothing: then only the version tells.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    id: Id,
    expected: Version,
    removal: bool,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct State {
    version: Version,
    nonce: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Oracle {
    attempts: BTreeMap<u64, Attempt>,
    states: BTreeMap<Id, State>,
    /// Everything that was ever said of a version.
    said: BTreeMap<(Id, Version), Option<u64>>,
}

impl Oracle {
    pub(super) fn attempt(&mut self, nonce: u64, id: Id, expected: Version, removal: bool) {
        self.attempts.insert(nonce, Attempt { id, expected, removal, fate: Fate::Open });
    }

    pub(super) fn settle(&mut self, nonce: u64, fate: Fate) {
        if let Some(attempt) = self.attempts.get_mut(&nonce) {
            attempt.fate = fate;
        }
    }

    /// Any answer shows a version; one version is one content, whoever is asked.
    pub(super) fn shown(&mut self, id: Id, version: Version, nonce: Option<u64>) -> Outcome {
        let known = *self.said.entry((id, version)).or_insert(nonce);
        ensure!(known == nonce, "version {version} holds write {known:?}, and is shown with {nonce:?}");
        Ok(())
    }

    /// The truth behind the twin, after every step; a step makes one change at most.
    pub(super) fn truth(&mut self, id: Id, held: &Snapshot, nonce: Option<u64>) -> Outcome {
        self.shown(id, held.version, nonce)?;
        let before = self.states.get(&id).copied().unwrap_or_default();
        let now = State { version: held.version, nonce };
        if before == now {
            return Ok(());
        }
        ensure!(now.version > before.version, "the version moved from {} to {}", before.version, now.version);
        self.explain(id, before, now)?;
        self.states.insert(id, now);
        Ok(())
    }

    /// Who did this?
    fn explain(&self, id: Id, before: State, now: State) -> Outcome {
        let mut suspects = self.attempts.iter().filter(|(nonce, attempt)| match now.nonce {
            Some(wrote) => wrote == **nonce,
            None => attempt.removal && attempt.id == id && attempt.expected == before.version,
        });
        let able = |attempt: &Attempt| match attempt.fate {
            Fate::Open => true,
            Fate::Acknowledged(version) => version == now.version,
            Fate::Dead => false,
        };
        let guilty =
            suspects.any(|(_, attempt)| attempt.id == id && attempt.expected == before.version && able(attempt));
        if guilty {
            return Ok(());
        }
        let told = now.nonce.and_then(|nonce| self.attempts.get(&nonce));
        Err(Halt::Failed(format!(
            "the record went from version {} to {} ({:?}), by a write of which is known: {told:?}",
            before.version, now.version, now.nonce
        )))
    }

    /// No acknowledged write is lost: its version was the truth at one time, with what it wrote.
    pub(super) fn close(&self) -> Outcome {
        for (nonce, attempt) in &self.attempts {
            if let Fate::Acknowledged(version) = attempt.fate {
                let wrote = if attempt.removal { None } else { Some(*nonce) };
                let said = self.said.get(&(attempt.id, version));
                ensure!(said == Some(&wrote), "write {nonce} was acknowledged as {version}, which holds {said:?}");
            }
        }
        Ok(())
    }
}
