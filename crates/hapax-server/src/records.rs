//! Operations as they read now, straight from the store: for lists, and to find out whose they are.

use hapax_core::{Id, Record, Stamp, State, Version, as_read, lease_end, window_end};
use hapax_engine::{Engine, EngineError};
use hapax_store::{Kind, Snapshot, codec};

/// One record.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) id: Id,
    pub(crate) record: Record,
    pub(crate) version: Version,
    pub(crate) now: Stamp,
}

impl Seen {
    /// `None`: there is nothing, or nothing that is an operation.
    pub(crate) fn of(id: Id, snapshot: &Snapshot) -> Option<Self> {
        let envelope = snapshot.record.as_ref().filter(|envelope| envelope.kind == Kind::OPERATION)?;
        let stored = codec::open(envelope).ok()?.settled(snapshot.version, snapshot.stamp);
        let record = as_read(&stored, snapshot.now)?.into_owned();
        Some(Self { id, record, version: snapshot.version, now: snapshot.now })
    }

    /// How long until the lease or the window of this state ends.
    pub(crate) fn ends_in_ms(&self) -> Option<u64> {
        let end = match &self.record.state {
            State::Pending(pending) => Some(lease_end(&pending.lease)),
            State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
                window_end(&self.record)
            }
        };
        end.map(|end| end.since(self.now).0)
    }
}

pub(crate) async fn read(engine: &Engine, id: &Id) -> Result<Option<Seen>, EngineError> {
    Ok(Seen::of(*id, &engine.store().get(id).await?))
}
