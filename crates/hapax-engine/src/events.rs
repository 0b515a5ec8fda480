//! What happened, for pages, metrics and *explain*: a bounded ring. What must survive is in the records.

use std::{collections::VecDeque, sync::Arc};

use hapax_core::{Event, Id, WallMillis, record::About};
use parking_lot::Mutex;
use tokio::sync::watch;

/// One entry of the ring.
#[derive(Clone, Debug)]
pub struct Logged {
    /// Grows by one with each event of this process.
    pub number: u64,
    pub wall: WallMillis,
    pub id: Id,
    pub about: Arc<About>,
    pub event: Event,
    pub actor: Option<Arc<str>>,
}

/// The wanted events have left the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The oldest number still there.
    pub oldest: u64,
}

#[derive(Debug)]
pub struct Events {
    ring: Mutex<Ring>,
    newest: watch::Sender<u64>,
}

#[derive(Debug)]
struct Ring {
    entries: VecDeque<Logged>,
    room: usize,
    next: u64,
}

impl Events {
    pub(crate) fn with_room(room: usize) -> Self {
        let room = room.max(1);
        Self {
            ring: Mutex::new(Ring { entries: VecDeque::with_capacity(room.min(65_536)), room, next: 1 }),
            newest: watch::Sender::new(0),
        }
    }

    pub(crate) fn log(&self, wall: WallMillis, id: Id, about: Arc<About>, event: Event, actor: Option<Arc<str>>) {
        // What falls out of the ring dies outside the lock.
        let (number, _oldest) = {
            let mut ring = self.ring.lock();
            let number = ring.next;
            ring.next += 1;
            let oldest = if ring.entries.len() == ring.room { ring.entries.pop_front() } else { None };
            ring.entries.push_back(Logged { number, wall, id, about, event, actor });
            (number, oldest)
        };
        // Nobody listens most of the time; then nothing is woken.
        if self.newest.receiver_count() > 0 {
            self.newest.send_replace(number);
        }
    }

    /// Everything after `number`, or the gap that is in the way. 0 asks for all that is still there.
    pub fn after(&self, number: u64) -> Result<Vec<Logged>, Gap> {
        let ring = self.ring.lock();
        let oldest = ring.entries.front().map_or(ring.next, |entry| entry.number);
        // A number that was never given out here comes from an earlier life of the process.
        if number != 0 && (number >= ring.next || number + 1 < oldest) {
            return Err(Gap { oldest });
        }
        let skip = usize::try_from((number + 1).saturating_sub(oldest)).unwrap_or(usize::MAX);
        Ok(ring.entries.iter().skip(skip).cloned().collect())
    }

    /// Changes whenever something was logged.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// What is still known about one operation, oldest first.
    #[must_use]
    pub fn of(&self, id: &Id) -> Vec<Logged> {
        self.ring.lock().entries.iter().filter(|entry| entry.id == *id).cloned().collect()
    }
}
