use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use bytes::Bytes;
use hapax_core::{Id, Stamp};
use parking_lot::RwLock;

use super::place::foreign;
use crate::{BodyId, BodyInfo, Cursor, Page, StoreError};

#[derive(Debug, Default)]
pub(super) struct Bodies {
    held: RwLock<BTreeMap<BodyId, Body>>,
}

#[derive(Debug)]
struct Body {
    owner: Id,
    stored: Stamp,
    bytes: Bytes,
}

impl Bodies {
    /// A repeated put counts as stored anew: its owner is still about to name it, so the orphan sweep has to wait.
    pub(super) fn put(&self, owner: Id, body: BodyId, bytes: Bytes, now: Stamp) {
        self.held.write().insert(body, Body { owner, stored: now, bytes });
    }

    pub(super) fn get(&self, body: BodyId) -> Option<Bytes> {
        self.held.read().get(&body).map(|held| held.bytes.clone())
    }

    pub(super) fn remove(&self, body: BodyId) {
        self.held.write().remove(&body);
    }

    pub(super) fn list(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<BodyInfo>, StoreError> {
        let start = match after {
            None => Unbounded,
            Some(cursor) => Excluded(BodyId(cursor.0.as_ref().try_into().map_err(|_| foreign())?)),
        };
        let limit = limit.max(1);
        let held = self.held.read();
        let items: Vec<_> = held
            .range((start, Unbounded))
            .take(limit)
            .map(|(&body, held)| BodyInfo {
                body,
                owner: held.owner,
                stored: held.stored,
                length: held.bytes.len() as u64,
            })
            .collect();
        let next =
            items.last().filter(|_| items.len() == limit).map(|last| Cursor(Bytes::copy_from_slice(&last.body.0)));
        Ok(Page { items, next })
    }
}
