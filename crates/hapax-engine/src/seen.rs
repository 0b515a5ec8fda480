use std::{sync::Arc, time::Duration};

use hapax_core::{Current, Id, Millis, Record, Stamp, Version};
use hapax_store::{Kind, Snapshot, StoreError, codec};
use tokio::time::Instant;

use crate::{engine::Inner, gate::Mark};

/// A record as this process last saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) record: Option<Arc<Record>>,
    pub(crate) version: Version,
    when: When,
    /// What the gate had forgotten when the store was asked.
    pub(crate) mark: Option<Mark>,
    /// The store has just said so. What is only held may be long over: a write finds out, anything else has to look.
    pub(crate) fresh: bool,
    /// There is a record, and it is no operation. Whoever names it as one is told what anybody is told of an id that is not
    /// there, and nothing is written over it.
    pub(crate) is_other: bool,
}

/// What is known of the store's time.
#[derive(Clone, Copy, Debug)]
enum When {
    /// The store lives here: it can be asked whenever needed.
    Ask,
    /// What it said, and when.
    Said { now: Stamp, at: Instant },
}

impl Seen {
    /// Nothing was read: the id is taken to be one that was never written. The swap finds out.
    pub(crate) const fn nothing() -> Self {
        Self { record: None, version: Version::NEVER, when: When::Ask, mark: None, fresh: false, is_other: false }
    }

    pub(crate) const fn marked(mut self, mark: Mark) -> Self {
        self.mark = Some(mark);
        self
    }
}

impl Inner {
    pub(crate) fn seen(&self, snapshot: &Snapshot, id: &Id) -> Result<Seen, StoreError> {
        let is_other = snapshot.record.as_ref().is_some_and(|envelope| envelope.kind != Kind::OPERATION);
        let envelope = snapshot.record.as_ref().filter(|_| !is_other);
        let record = envelope.map(codec::open).transpose().map_err(|error| self.corrupt(id, error.to_string()))?;
        let record = record.map(|record| Arc::new(record.settled(snapshot.version, snapshot.stamp)));
        Ok(Seen { record, version: snapshot.version, when: self.when(snapshot.now), mark: None, fresh: true, is_other })
    }

    /// What is there under this id cannot be used.
    pub(crate) fn corrupt(&self, id: &Id, reason: String) -> StoreError {
        StoreError::Corrupt { store: self.store_name.clone(), place: format!("record {id}"), reason }
    }

    /// What this process itself wrote.
    pub(crate) fn written(&self, mut record: Option<Arc<Record>>, version: Version, stamp: Stamp) -> Seen {
        if let Some(record) = &mut record {
            Arc::make_mut(record).settle(version, stamp);
        }
        Seen { record, version, when: self.when(stamp), mark: None, fresh: true, is_other: false }
    }

    fn when(&self, now: Stamp) -> When {
        if self.store_is_here {
            return When::Ask;
        }
        let said = When::Said { now, at: Instant::now() };
        self.heard(now);
        said
    }

    /// The store's time now. A store that lives elsewhere is not asked: what it said, and what has passed since.
    pub(crate) fn now(&self, seen: &Seen) -> Stamp {
        match seen.when {
            When::Ask => self.store_now(),
            When::Said { now, at } => now.plus(Millis(u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX))),
        }
    }

    /// When a moment of the store will come on this process's clock.
    pub(crate) fn instant_of(&self, seen: &Seen, stamp: Stamp) -> Instant {
        let wait = stamp.since(self.now(seen)).as_std();
        let here = Instant::now();
        // A moment that far ahead never comes in this process; any later one will do.
        here.checked_add(wait).unwrap_or_else(|| here + Duration::from_secs(86_400 * 365))
    }
}

impl Seen {
    pub(crate) fn current(&self) -> Current<'_> {
        Current { record: self.record.as_deref(), version: self.version }
    }
}
