use std::sync::Arc;

use hapax_core::{Current, Millis, Moment, Record, Stamp, Version, WallMillis};
use hapax_store::{Snapshot, StoreError, codec};
use tokio::time::Instant;

use crate::gate::Mark;

/// A record as this process last saw it, and when that was.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) record: Option<Arc<Record>>,
    pub(crate) version: Version,
    now: Stamp,
    at: Instant,
    /// What the gate had forgotten when the store was asked.
    pub(crate) mark: Option<Mark>,
}

impl Seen {
    /// Nothing was read: the id is taken to be one that was never written. The swap finds out.
    pub(crate) fn nothing() -> Self {
        Self { record: None, version: Version::NEVER, now: Stamp(0), at: Instant::now(), mark: None }
    }

    pub(crate) fn read(snapshot: &Snapshot, store: &str, id: &hapax_core::Id) -> Result<Self, StoreError> {
        let record = snapshot.record.as_ref().map(codec::open).transpose().map_err(|error| StoreError::Corrupt {
            store: store.to_owned(),
            place: format!("record {id}"),
            reason: error.to_string(),
        })?;
        let record = record.map(|record| Arc::new(record.settled(snapshot.version, snapshot.stamp)));
        Ok(Self { record, version: snapshot.version, now: snapshot.now, at: Instant::now(), mark: None })
    }

    /// What this process itself wrote.
    pub(crate) fn written(record: Option<Record>, version: Version, stamp: Stamp) -> Self {
        let record = record.map(|record| Arc::new(record.settled(version, stamp)));
        Self { record, version, now: stamp, at: Instant::now(), mark: None }
    }

    pub(crate) const fn marked(mut self, mark: Mark) -> Self {
        self.mark = Some(mark);
        self
    }

    pub(crate) fn current(&self) -> Current<'_> {
        Current { record: self.record.as_deref(), version: self.version }
    }

    /// The store's time now, as far as can be told without asking: what it said, and what has passed since.
    pub(crate) fn store_now(&self) -> Stamp {
        self.now.plus(Millis(u64::try_from(self.at.elapsed().as_millis()).unwrap_or(u64::MAX)))
    }

    pub(crate) fn moment(&self, wall: WallMillis) -> Moment {
        Moment { now: self.store_now(), wall }
    }

    /// When a moment of the store will come on this process's clock.
    pub(crate) fn instant_of(&self, stamp: Stamp) -> Instant {
        let wait = stamp.since(self.now).as_std();
        // A moment that far ahead never comes in this process; any later one will do.
        self.at.checked_add(wait).unwrap_or_else(|| self.at + std::time::Duration::from_secs(86_400 * 365))
    }
}
