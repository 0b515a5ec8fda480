//! What callers, the writer and the keeper share.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::SyncSender,
    },
};

use bytes::Bytes;
use hapax_core::{Id, Millis, Stamp, Version};
use hapax_store::{Envelope, Snapshot, StoreError};

use crate::{
    bodies::Bodies,
    clock::StoreTime,
    entry::{Entry, What},
    index::{Index, Live, Spent},
    letterbox::Caller,
    log::Log,
    poison::Poison,
    queue::Queue,
    segment::{self, Segment},
    slot::{GONE, Key, Place, REMOVED, Slot},
    watchers::Watchers,
};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) log: Arc<Log>,
    pub(crate) index: Index,
    pub(crate) time: StoreTime,
    pub(crate) poison: Poison,
    pub(crate) queue: Queue<Request>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) bodies: Bodies,
    pub(crate) memory: Millis,
    /// No entry may be larger.
    pub(crate) most_entry: usize,
    /// The highest version that anybody may know of.
    pub(crate) visible: AtomicU64,
    pub(crate) counters: Counters,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) frames: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) carried: AtomicU64,
    pub(crate) retired: AtomicU64,
}

#[derive(Debug)]
pub(crate) enum Request {
    Swap(SwapRequest),
    Carry(Slice),
    /// An empty frame: what came before it is known to have been whole.
    Mark,
}

#[derive(Debug)]
pub(crate) struct SwapRequest {
    pub(crate) key: Key,
    pub(crate) id: Id,
    pub(crate) expected: Version,
    /// `None`: to be removed.
    pub(crate) next: Option<Arc<Live>>,
    pub(crate) caller: Caller,
}

#[derive(Debug)]
pub(crate) enum Reply {
    Swapped {
        version: Version,
        stamp: Stamp,
        spent: Spent,
    },
    /// The caller reads for itself what stands there now.
    Conflict,
    Failed(StoreError),
}

/// Entries on their way from the oldest segment to the newest.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) items: Vec<Carried>,
    /// Told when they are durable where they went, or not needed any more.
    pub(crate) done: SyncSender<()>,
}

#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) key: Key,
    pub(crate) id: Id,
    pub(crate) version: Version,
    pub(crate) stamp: Stamp,
    pub(crate) from: Place,
    pub(crate) what: Load,
}

#[derive(Debug)]
pub(crate) enum Load {
    Whole(Vec<u8>),
    /// Only that it is absent, and since when.
    Marker(Stamp),
}

impl Shared {
    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Unavailable { store: self.name.clone(), reason: reason.into() }
    }

    pub(crate) fn unsupported(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Unsupported { store: self.name.clone(), reason: reason.into() }
    }

    pub(crate) fn corrupt(&self, place: Place, reason: &str) -> StoreError {
        StoreError::Corrupt {
            store: self.name.clone(),
            place: format!("{} byte {}", segment::name(place.segment), place.offset),
            reason: format!("{reason}; {}", self.next_step()),
        }
    }

    /// After an error on the write path nothing is answered any more: what is read could contradict what a restart finds.
    pub(crate) fn healthy(&self) -> Result<(), StoreError> {
        match self.poison.why() {
            None => Ok(()),
            Some(why) => Err(self.unavailable(why)),
        }
    }

    pub(crate) fn poison(&self, why: impl std::fmt::Display) {
        self.poison.set(format!("{why}; restart to recover all that was acknowledged [HX0027]"));
        self.watchers.wake_all();
    }

    pub(crate) fn panicked(&self, who: &str) {
        self.poison
            .set(format!("its {who} thread has panicked; restart to recover all that was acknowledged [HX0028]"));
        self.watchers.wake_all();
    }

    /// What was durable no longer is as it was. Nobody can say what else is not, so this is no better than a failed write.
    pub(crate) fn damaged(&self, where_and_what: impl std::fmt::Display) {
        self.poison.set(format!("it is damaged: {where_and_what}; {}", self.next_step()));
        self.watchers.wake_all();
    }

    fn next_step(&self) -> String {
        let path = self.log.dir.display();
        format!(
            "look closer with `hapax ledger check {path}`, save what is whole with `hapax ledger repair {path} COPY` [HX0024]"
        )
    }

    pub(crate) fn visible(&self) -> Version {
        Version(self.visible.load(Ordering::Acquire))
    }

    pub(crate) fn snapshot(&self, id: &Id) -> Result<Snapshot, StoreError> {
        self.look(id, |slot| self.read(slot))
    }

    /// The same, if nobody has to wait for a disk.
    pub(crate) fn snapshot_at_once(&self, id: &Id) -> Result<Snapshot, NotAtOnce> {
        self.look(id, |slot| self.read_at_once(slot))
    }

    fn look<E: From<StoreError>>(
        &self,
        id: &Id,
        read: impl Fn(&Slot) -> Result<Option<Stored>, E>,
    ) -> Result<Snapshot, E> {
        self.healthy()?;
        let key = self.index.key(id);
        loop {
            let Some((slot, live)) = self.index.find(key) else {
                let (version, stamp, now) = (Version::NEVER, Stamp::default(), self.time.tell());
                return Ok(Snapshot { record: None, version, stamp, now });
            };
            let now = self.time.tell();
            let gone = slot.has(REMOVED) || slot.has(GONE) || slot.gone().is_some_and(|gone| gone <= now);
            if let Some(live) = live {
                if live.id != *id {
                    return Err(self.unsupported("two ids share an index key").into());
                }
                let record = (!gone).then(|| live.envelope.clone());
                return Ok(Snapshot { record, version: live.version, stamp: live.stamp, now: now.max(live.stamp) });
            }
            match read(&slot)? {
                Some(stored) if stored.id != *id => return Err(self.unsupported("two ids share an index key").into()),
                Some(stored) => {
                    let record = if gone { None } else { stored.record };
                    let Stored { version, stamp, .. } = stored;
                    return Ok(Snapshot { record, version, stamp, now: now.max(stamp) });
                }
                // It has moved while we looked.
                None => {}
            }
        }
    }

    /// Reads an entry from disk. `None`: the index names another place by now.
    pub(crate) fn read(&self, slot: &Slot) -> Result<Option<Stored>, StoreError> {
        let place = slot.place();
        let segment = self.log.segment(place.segment);
        let bytes = segment.as_ref().map(|segment| segment.read(place.offset, place.length as usize));
        self.opened(slot, segment.as_deref().zip(bytes))
    }

    /// The same, if nobody has to wait for the disk.
    fn read_at_once(&self, slot: &Slot) -> Result<Option<Stored>, NotAtOnce> {
        let place = slot.place();
        let segment = self.log.segment(place.segment);
        let bytes = segment.as_ref().map(|segment| segment.read_at_once(place.offset, place.length as usize));
        let bytes = match bytes.map(io::Result::transpose) {
            Some(None) => return Err(NotAtOnce::OnDisk),
            Some(Some(bytes)) => Some(bytes),
            None => None,
        };
        Ok(self.opened(slot, segment.as_deref().zip(bytes))?)
    }

    /// An entry, from what was read where it should be.
    fn opened(&self, slot: &Slot, read: Option<(&Segment, io::Result<Vec<u8>>)>) -> Result<Option<Stored>, StoreError> {
        let place = slot.place();
        let failed = match read {
            None => self.corrupt(place, "its segment is missing"),
            Some((_, Err(error))) => {
                self.unavailable(format!("{} cannot be read: {error}", segment::name(place.segment)))
            }
            Some((segment, Ok(bytes))) => {
                let bytes = Bytes::from(bytes);
                match Entry::open(&bytes, segment.seed, place.offset) {
                    Some(entry) if entry.version == slot.version() => return Ok(Some(Stored::new(entry, &bytes))),
                    Some(_) | None => self.corrupt(place, "the checksum does not match"),
                }
            }
        };
        match self.index.slot(slot.key()) {
            Some(now) if now.place() == place && now.version() == slot.version() => Err(failed),
            Some(_) | None => Ok(None),
        }
    }
}

/// Why there is no answer without waiting.
pub(crate) enum NotAtOnce {
    /// It is no longer in memory.
    OnDisk,
    Failed(StoreError),
}

impl From<StoreError> for NotAtOnce {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// An entry that was read alone.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) id: Id,
    pub(crate) version: Version,
    pub(crate) stamp: Stamp,
    pub(crate) record: Option<Envelope>,
}

impl Stored {
    pub(crate) fn new(entry: Entry<'_>, bytes: &Bytes) -> Self {
        let Entry { id, version, stamp, what, .. } = entry;
        let record = match what {
            What::Removal(_) => None,
            What::Record(record) => {
                // The payload is a part of the bytes that were read: shared, not copied.
                let padding = usize::from(bytes.get(9).copied().unwrap_or(0));
                let length = record.payload.len();
                let end = bytes.len() - padding;
                Some(record.envelope(bytes.slice(end - length..end)))
            }
        };
        Self { id, version, stamp, record }
    }
}
