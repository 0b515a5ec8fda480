use hapax_core::{Id, Stamp, Version};

use super::place::Due;
use crate::{Envelope, Snapshot};

/// What is known of one id: its record, or the version of its removal.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: Id,
    /// [`Version::NEVER`] while the slot is free.
    pub(super) version: Version,
    pub(super) stamp: Stamp,
    pub(super) record: Option<Envelope>,
    /// Where the record stands in the indexes, if it does.
    pub(super) lease: Option<Due>,
    pub(super) expiry: Option<Due>,
    pub(super) doubt: Option<Version>,
}

impl Slot {
    fn new(id: Id) -> Self {
        Self { id, version: Version::NEVER, stamp: Stamp(0), record: None, lease: None, expiry: None, doubt: None }
    }

    pub(super) fn snapshot(&self, clock: Stamp) -> Snapshot {
        Snapshot { record: self.record.clone(), version: self.version, stamp: self.stamp, now: clock.max(self.stamp) }
    }
}

/// Slots by number. It grows by whole chunks, so that growing never moves what is there.
#[derive(Debug, Default)]
pub(super) struct Slots {
    chunks: Vec<Vec<Slot>>,
    free: Vec<u32>,
    used: u32,
}

const CHUNK: u32 = 256;

impl Slots {
    pub(super) fn get(&self, at: u32) -> Option<&Slot> {
        self.chunks.get((at / CHUNK) as usize)?.get((at % CHUNK) as usize)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Slot> {
        self.chunks.get_mut((at / CHUNK) as usize)?.get_mut((at % CHUNK) as usize)
    }

    /// Whether the slot still is what it was when this version was written.
    pub(super) fn is_current(&self, at: u32, version: Version) -> bool {
        self.get(at).is_some_and(|slot| slot.version == version)
    }

    pub(super) fn take(&mut self, id: Id) -> u32 {
        if let Some(at) = self.free.pop() {
            if let Some(slot) = self.get_mut(at) {
                *slot = Slot::new(id);
            }
            return at;
        }
        let at = self.used;
        if at.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK as usize));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(Slot::new(id));
        }
        self.used += 1;
        at
    }

    pub(super) fn give_back(&mut self, at: u32) {
        if let Some(slot) = self.get_mut(at) {
            slot.version = Version::NEVER;
            slot.record = None;
            self.free.push(at);
        }
    }
}
