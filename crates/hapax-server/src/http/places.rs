use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::accept::Peer;
use crate::limits::Limits;

/// The places of one listener: so many in all, and so many for one address.
#[derive(Clone, Debug)]
pub(super) struct Places {
    taken: Arc<Mutex<Taken>>,
    most: usize,
    most_of_one: usize,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_peer: HashMap<Peer, usize>,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { taken: Arc::default(), most: limits.connections, most_of_one: limits.connections_per_peer }
    }

    /// `None`: there is no place, or none for this one.
    pub(super) fn take(&self, peer: Option<Peer>) -> Option<Place> {
        let mut taken = self.taken.lock();
        let of_peer = peer.map_or(0, |peer| taken.by_peer.get(&peer).copied().unwrap_or(0));
        if taken.all >= self.most || of_peer >= self.most_of_one {
            return None;
        }
        taken.all += 1;
        if let Some(peer) = peer {
            taken.by_peer.insert(peer, of_peer + 1);
        }
        Some(Place { taken: Arc::clone(&self.taken), peer })
    }
}

/// Given back when it goes.
#[derive(Debug)]
pub(super) struct Place {
    taken: Arc<Mutex<Taken>>,
    peer: Option<Peer>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all -= 1;
        let Some(peer) = self.peer else { return };
        match taken.by_peer.get_mut(&peer) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(taken.by_peer.remove(&peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn one_address_cannot_take_every_place() {
        let limits = Limits { connections: 4, connections_per_peer: 3, ..Limits::default() };
        let places = Places::new(&limits);
        let (greedy, other) = (Peer::Host(IpAddr::from([10, 0, 0, 1])), Peer::Host(IpAddr::from([10, 0, 0, 2])));
        let mut held: Vec<Place> = (0..3).filter_map(|_| places.take(Some(greedy))).collect();
        assert_eq!(held.len(), 3);
        assert!(places.take(Some(greedy)).is_none());
        let _others = places.take(Some(other)).unwrap();
        assert!(places.take(Some(other)).is_none(), "now all are taken");
        held.clear();
        assert!(places.take(Some(greedy)).is_some());
        assert_eq!(places.taken.lock().by_peer.len(), 1, "whoever has left is forgotten");
    }
}
