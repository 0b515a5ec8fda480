use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

/// How many connections each address has.
#[derive(Clone, Debug, Default)]
pub(super) struct Peers(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Peers {
    /// A place for one more connection of this address, unless it has its share.
    pub(super) fn enter(&self, address: IpAddr, most: usize) -> Option<Place> {
        let address = address.to_canonical();
        let mut peers = self.0.lock();
        let count = peers.entry(address).or_insert(0);
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(peers);
        Some(Place { peers: self.clone(), address })
    }
}

#[derive(Debug)]
pub(super) struct Place {
    peers: Peers,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut peers = self.peers.0.lock();
        if let Some(count) = peers.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_its_share_and_no_more_and_leaves_nothing_behind() {
        let peers = Peers::default();
        let (one, other): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = peers.enter(one, 2).unwrap();
        let _second = peers.enter("::ffff:10.0.0.1".parse().unwrap(), 2).unwrap();
        assert!(peers.enter(one, 2).is_none());
        let third = peers.enter(other, 2);
        assert!(third.is_some());
        drop((first, third));
        assert!(peers.enter(one, 2).is_some());
        assert_eq!(peers.0.lock().len(), 1);
    }
}
