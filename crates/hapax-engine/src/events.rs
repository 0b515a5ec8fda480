//! What happened, for pages, metrics and *explain*: a bounded ring. What must survive is in the records.

use std::{collections::VecDeque, sync::Arc};

use foldhash::fast::RandomState;
use hapax_core::{Event, Id, WallMillis, record::About};
use hashbrown::HashMap;
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

/// Each tenant's events in a queue of their own. Whoever fills the ring makes room with its own: a tenant that holds
/// less than its share loses nothing to a busy one.
#[derive(Debug)]
struct Ring {
    by_tenant: HashMap<Arc<str>, usize, RandomState>,
    queues: Vec<Queue>,
    /// Queues that nobody has.
    free: Vec<usize>,
    /// The queue of each entry, in the order in which they are asked to make room.
    order: VecDeque<usize>,
    room: usize,
    next: u64,
    /// The highest number that has left the ring, whosever it was.
    gone: u64,
}

#[derive(Debug)]
struct Queue {
    tenant: Arc<str>,
    entries: VecDeque<Logged>,
    gone: u64,
}

impl Ring {
    fn add(&mut self, logged: Logged) {
        let tenant = &logged.about.tenant;
        let at = match self.by_tenant.get(tenant) {
            Some(at) => *at,
            None => {
                let tenant = Arc::clone(tenant);
                // What was its own among all that has left is not known any more.
                let queue = Queue { tenant: Arc::clone(&tenant), entries: VecDeque::new(), gone: self.gone };
                let at = match self.free.pop() {
                    Some(at) => {
                        self.queues[at] = queue;
                        at
                    }
                    None => {
                        self.queues.push(queue);
                        self.queues.len() - 1
                    }
                };
                self.by_tenant.insert(tenant, at);
                at
            }
        };
        self.queues[at].entries.push_back(logged);
        self.order.push_back(at);
    }

    /// Gives up one entry, if there is no place for another.
    fn make_room(&mut self) -> Option<Logged> {
        if self.order.len() < self.room {
            return None;
        }
        // All shares together are half of the room, so somebody is above theirs; and over a round of the ring every
        // second entry looked at is given up, at least.
        let share = self.room / (2 * self.by_tenant.len().max(1));
        while let Some(at) = self.order.pop_front() {
            if self.queues[at].entries.len() <= share {
                self.order.push_back(at);
                continue;
            }
            let queue = &mut self.queues[at];
            let given_up = queue.entries.pop_front();
            if let Some(logged) = &given_up {
                queue.gone = logged.number;
                self.gone = self.gone.max(logged.number);
            }
            if queue.entries.is_empty() {
                self.by_tenant.remove(&queue.tenant);
                self.free.push(at);
            }
            return given_up;
        }
        None
    }

    /// Whether somebody who has seen `number` has missed something, if `gone` is the highest number that is not there.
    const fn gap(&self, number: u64, gone: u64) -> Option<Gap> {
        // A number that was never given out here comes from an earlier life of the process.
        if number != 0 && (number >= self.next || number < gone) { Some(Gap { oldest: gone + 1 }) } else { None }
    }
}

impl Events {
    pub(crate) fn with_room(room: usize) -> Self {
        let room = room.max(1);
        let ring = Ring {
            by_tenant: HashMap::default(),
            queues: Vec::new(),
            free: Vec::new(),
            order: VecDeque::with_capacity(room.min(65_536)),
            room,
            next: 1,
            gone: 0,
        };
        Self { ring: Mutex::new(ring), newest: watch::Sender::new(0) }
    }

    pub(crate) fn log(&self, wall: WallMillis, id: Id, about: Arc<About>, event: Event, actor: Option<Arc<str>>) {
        // What falls out of the ring dies outside the lock.
        let (number, _given_up) = {
            let mut ring = self.ring.lock();
            let number = ring.next;
            ring.next += 1;
            let given_up = ring.make_room();
            ring.add(Logged { number, wall, id, about, event, actor });
            (number, given_up)
        };
        // Nobody listens most of the time; then nothing is woken.
        if self.newest.receiver_count() > 0 {
            self.newest.send_replace(number);
        }
    }

    /// Everything after `number`, or the gap that is in the way. 0 asks for all that is still there.
    pub fn after(&self, number: u64) -> Result<Vec<Logged>, Gap> {
        let ring = self.ring.lock();
        if let Some(gap) = ring.gap(number, ring.gone) {
            return Err(gap);
        }
        let mut all = Vec::new();
        for queue in &ring.queues {
            all.extend(newer(&queue.entries, number).cloned());
        }
        drop(ring);
        all.sort_unstable_by_key(|logged: &Logged| logged.number);
        Ok(all)
    }

    /// The same of one tenant only: what others do neither shows nor leaves a gap.
    pub fn after_of(&self, tenant: &str, number: u64) -> Result<Vec<Logged>, Gap> {
        let ring = self.ring.lock();
        let queue = ring.by_tenant.get(tenant).and_then(|at| ring.queues.get(*at));
        match (ring.gap(number, queue.map_or(ring.gone, |queue| queue.gone)), queue) {
            (Some(gap), _) => Err(gap),
            (None, Some(queue)) => Ok(newer(&queue.entries, number).cloned().collect()),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Changes whenever something was logged.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// What is still known about one operation, oldest first.
    #[must_use]
    pub fn of(&self, id: &Id) -> Vec<Logged> {
        let ring = self.ring.lock();
        let entries = ring.queues.iter().flat_map(|queue| &queue.entries);
        let mut found: Vec<Logged> = entries.filter(|entry| entry.id == *id).cloned().collect();
        drop(ring);
        found.sort_unstable_by_key(|logged| logged.number);
        found
    }
}

/// A queue is in the order of its numbers.
fn newer(entries: &VecDeque<Logged>, number: u64) -> impl Iterator<Item = &Logged> {
    entries.iter().skip(entries.partition_point(|entry| entry.number <= number))
}

#[cfg(test)]
mod tests {
    use hapax_core::{Cause, StateName, Tag};

    use super::*;

    fn log(events: &Events, tenant: &str, times: u64) {
        for _ in 0..times {
            let about = About {
                surface: "api".into(),
                tenant: tenant.into(),
                surface_tag: Tag([0; 16]),
                tenant_tag: Tag([0; 16]),
                principal: None,
                key_hash: [0; 8],
            };
            let event = Event {
                cause: Cause::Begin,
                from: StateName::Absent,
                to: StateName::Pending,
                attempt: 1,
                late: false,
                found_lapsed: false,
                mismatch_observed: false,
                refused: None,
            };
            events.log(WallMillis(0), Id([0; 32]), Arc::new(about), event, None);
        }
    }

    #[test]
    fn a_busy_tenant_pushes_out_only_its_own_events() {
        let events = Events::with_room(100);
        log(&events, "quiet", 10);
        log(&events, "busy", 100_000);
        assert_eq!(events.after_of("quiet", 1).unwrap().len(), 9, "all of it is there, and nothing was missed");
        assert_eq!(events.after(0).unwrap().len(), 100);
        assert_eq!(events.after_of("busy", 11).unwrap_err(), Gap { oldest: 99_921 });
        assert_eq!(events.after_of("busy", 99_920).unwrap().len(), 90);
        assert!(events.after(1).is_err(), "whoever reads all has missed some");
        assert!(events.after_of("nobody", 0).unwrap().is_empty());
    }

    #[test]
    fn more_tenants_than_places_leave_the_ring_bounded_and_in_order() {
        let events = Events::with_room(50);
        for tenant in 0..1_000 {
            log(&events, &format!("t{tenant}"), 2);
        }
        let numbers: Vec<u64> = events.after(0).unwrap().iter().map(|logged| logged.number).collect();
        assert_eq!(numbers, (1_951..=2_000).collect::<Vec<_>>());
        assert!(events.ring.lock().queues.len() <= 51, "queues are used again");
        assert!(events.after_of("t3", 7).is_err(), "who is gone altogether is told so");
    }
}
