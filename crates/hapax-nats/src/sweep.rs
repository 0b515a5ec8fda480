//! Parts of long records that no record names any more: it was replaced, or was never written.

use std::sync::Arc;

use hapax_core::Id;
use hapax_store::StoreError;

use crate::{
    error::{Call, Failed},
    head::{self, Head},
    pieces::Kind,
    shared::Shared,
};

const CALL: Call = Call::Read("sweep");

impl Shared {
    /// Drops those that are older than a write can be late.
    pub(crate) async fn sweep_parts(self: &Arc<Self>) -> Result<u64, StoreError> {
        let failed = |failed: Failed| self.failed(CALL, failed);
        let (mut place, mut dropped) = (0, 0);
        while let Some(whole) = self.next_whole(Kind::Part, place).await.map_err(failed)? {
            place = whole.sequence;
            let late = self.now(CALL).await?.since(whole.stored) > self.removal_memory;
            if late && self.named_part(&whole.owner).await.map_err(failed)? != Some(whole.name) {
                self.drop_pieces(&whole.name, Kind::Part).await.map_err(failed)?;
                dropped += 1;
            }
        }
        Ok(dropped)
    }

    async fn named_part(&self, owner: &Id) -> Result<Option<[u8; 32]>, Failed> {
        let held = self.last(&self.names.records, &self.names.record(owner)).await?;
        Ok(held.and_then(|held| Head::decode(&held.header(head::NAME)?)).and_then(|head| head.part))
    }
}
