//! Bodies too large for a record.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{BodyId, Id};
use hapax_store::{BodyInfo, Cursor, Page, StoreError};

use crate::{
    error::{Call, Failed},
    pieces::Kind,
    shared::Shared,
};

impl Shared {
    pub(crate) async fn keep_body(self: &Arc<Self>, owner: &Id, body: BodyId, bytes: Bytes) -> Result<(), StoreError> {
        let call = Call::Write("put_body");
        let now = self.now(Call::Read("put_body")).await?;
        self.lay(&body.0, Kind::Body, owner, now, &bytes).await.map_err(|failed| self.failed(call, failed))
    }

    pub(crate) async fn read_body(&self, body: BodyId) -> Result<Option<Bytes>, StoreError> {
        let call = Call::Read("get_body");
        self.collect(&body.0, Kind::Body).await.map_err(|failed| self.failed(call, failed))
    }

    pub(crate) async fn forget_body(&self, body: BodyId) -> Result<(), StoreError> {
        let call = Call::Write("drop_body");
        self.drop_pieces(&body.0, Kind::Body).await.map_err(|failed| self.failed(call, failed))
    }

    /// In the order they were stored.
    pub(crate) async fn list_bodies(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<BodyInfo>, StoreError> {
        let failed = |failed: Failed| self.failed(Call::Read("bodies"), failed);
        let mut place = match after {
            None => 0,
            Some(cursor) => u64::from_be_bytes(cursor.0.as_ref().try_into().map_err(|_| self.foreign_cursor())?),
        };
        let mut items = Vec::new();
        while items.len() < limit.max(1) {
            let Some(whole) = self.next_whole(Kind::Body, place).await.map_err(failed)? else {
                return Ok(Page { items, next: None });
            };
            place = whole.sequence;
            let (owner, stored, length) = (whole.owner, whole.stored, whole.length);
            items.push(BodyInfo { body: BodyId(whole.name), owner, stored, length });
        }
        Ok(Page { items, next: Some(Cursor(Bytes::copy_from_slice(&place.to_be_bytes()))) })
    }
}
