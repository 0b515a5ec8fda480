//! The change feed: the stream itself, which keeps the last message of each record in the order they were written.
//!
//! A cursor holds how far it was read, and the last sequence when reading began: what was removed and forgotten before
//! that had never been shown.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Id, Stamp, Version};
use hapax_store::{Change, Changes, Cursor, Snapshot, StoreError};
use tokio::task::JoinSet;

use crate::{error::Call, shared::Shared};

const CALL: Call = Call::Read("changes");
/// So many records are read at once.
const AT_ONCE: usize = 64;

#[derive(Clone, Copy)]
struct Reading {
    through: u64,
    began: u64,
}

impl Reading {
    fn cursor(self) -> Cursor {
        Cursor(Bytes::from([self.through.to_be_bytes(), self.began.to_be_bytes()].concat()))
    }

    fn parse(cursor: &Cursor) -> Option<Self> {
        let (numbers, []) = cursor.0.as_chunks::<8>() else { return None };
        let [through, began] = numbers else { return None };
        Some(Self { through: u64::from_be_bytes(*through), began: u64::from_be_bytes(*began) })
    }
}

impl Shared {
    pub(crate) async fn feed(self: &Arc<Self>, after: Option<&Cursor>, limit: usize) -> Result<Changes, StoreError> {
        self.caught_up(CALL).await?;
        let start = Reading { through: 0, began: *self.seen.borrow() };
        let reading = match after {
            None => start,
            Some(cursor) => Reading::parse(cursor).ok_or_else(|| self.foreign_cursor())?,
        };
        let changed = {
            let index = self.index.read();
            if index.forgotten > reading.through.max(reading.began) {
                return Ok(Changes::Gap { oldest: start.cursor() });
            }
            index.changed(reading.through, limit.max(1))
        };
        let through = changed.last().map_or(reading.through, |(sequence, _)| *sequence);
        let items = self.states(&changed).await?;
        Ok(Changes::Page { items, next: Reading { through, ..reading }.cursor() })
    }

    /// Each as it is now, which may be later than what the feed has named.
    async fn states(self: &Arc<Self>, changed: &[(u64, Id)]) -> Result<Vec<Change>, StoreError> {
        let mut changes = Vec::with_capacity(changed.len());
        for some in changed.chunks(AT_ONCE) {
            let mut reads = JoinSet::new();
            for (place, (sequence, id)) in some.iter().enumerate() {
                let (shared, sequence, id) = (Arc::clone(self), *sequence, *id);
                reads.spawn(async move { (place, shared.state(sequence, id).await) });
            }
            let mut page: Vec<(usize, Change)> = Vec::with_capacity(some.len());
            while let Some(read) = reads.join_next().await {
                let (place, change) = read.map_err(|error| self.corrupt("the feed".into(), error.to_string()))?;
                page.push((place, change?));
            }
            page.sort_unstable_by_key(|(place, _)| *place);
            changes.extend(page.into_iter().map(|(_, change)| change));
        }
        Ok(changes)
    }

    async fn state(self: &Arc<Self>, sequence: u64, id: Id) -> Result<Change, StoreError> {
        let mut snapshot = self.read(CALL, &id).await?;
        if snapshot.version == Version::NEVER {
            // A removal of which only the feed still knows.
            let version = Version(sequence);
            let stamp = self.stamp_of(&id, version).unwrap_or(Stamp(0));
            snapshot = Snapshot { record: None, version, stamp, now: snapshot.now };
        }
        Ok(Change { id, snapshot })
    }
}
