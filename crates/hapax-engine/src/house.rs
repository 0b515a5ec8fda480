//! What the processes on one store settle among themselves: who sweeps, and that they share one secret.

use hapax_core::{
    Id, Millis,
    claim::{Claimant, Claimed, apply_claim},
    mark::{Mark, Marked, apply_mark},
};
use hapax_store::StoreError;

use crate::{
    engine::{Engine, Inner},
    error::EngineError,
};

/// Work that one process at a time does for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Range {
    /// Lapses and expiries.
    Records,
    /// Bodies that no record names.
    Bodies,
}

impl Range {
    fn id(self) -> Id {
        let name: &[u8] = match self {
            Self::Records => b"records",
            Self::Bodies => b"bodies",
        };
        Id::derived("hapax.claim", &[name])
    }
}

impl Inner {
    /// Whether this process does the work in this range now. Where no other process writes there is nobody to ask.
    pub(crate) async fn claims(&self, range: Range) -> Result<bool, StoreError> {
        if self.store.single_writer() {
            return Ok(true);
        }
        let length = self.claim_length();
        let claimed =
            self.decide(&range.id(), |held, moment| apply_claim(held, self.claimant, length, moment.now)).await?;
        Ok(claimed == Claimed::Ours)
    }

    /// Long enough that who sweeps goes on sweeping, short enough that the dead are soon replaced.
    fn claim_length(&self) -> Millis {
        Millis::from_std(self.settings.sweep_claim)
    }
}

impl Engine {
    /// Writes down which secret this store is used with, or compares it with what the first process wrote. With another
    /// secret the same credential is another tenant, and the same key would run once for each.
    pub async fn agree_on_secret(&self) -> Result<(), EngineError> {
        let ours = Mark(self.inner.secret.digest("hapax.store-secret.v1"));
        let id = Id::derived("hapax.mark", &[b"secret"]);
        match self.inner.decide(&id, |held, _| apply_mark(held, ours)).await? {
            Marked::Same => Ok(()),
            Marked::Other => Err(EngineError::OtherSecret { store: self.inner.store_name.clone() }),
        }
    }
}

/// A name that no other process has.
pub(crate) fn claimant(entropy: &dyn crate::ambient::Entropy) -> Result<Claimant, crate::ambient::EntropyError> {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes)?;
    Ok(Claimant(bytes))
}
