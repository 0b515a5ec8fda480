//! All customers at once, a few dozen of them at a time.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

use super::{
    client::insist,
    order::{Order, Trouble},
    tally::{Heard, Tally},
};

const AT_A_TIME: usize = 24;
/// Between the arrivals of two customers.
const PACE: Duration = Duration::from_millis(20);

pub(crate) struct Crowd {
    address: SocketAddr,
    orders: Vec<Order>,
    finished: watch::Sender<usize>,
}

/// How many customers have finished.
pub(crate) struct Progress(watch::Receiver<usize>);

impl Progress {
    pub(crate) async fn reaches(mut self, orders: usize) {
        let _crowd_gone = self.0.wait_for(|finished| *finished >= orders).await;
    }
}

impl Crowd {
    pub(crate) fn new(address: SocketAddr, orders: &[Order]) -> Self {
        Self { address, orders: orders.to_vec(), finished: watch::Sender::new(0) }
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress(self.finished.subscribe())
    }

    pub(crate) async fn run(self) -> Arc<Tally> {
        let tally = Arc::new(Tally::default());
        let places = Arc::new(Semaphore::new(AT_A_TIME));
        let mut customers = JoinSet::new();
        for order in self.orders {
            let (places, tally, finished) = (Arc::clone(&places), Arc::clone(&tally), self.finished.clone());
            tokio::time::sleep(PACE).await;
            customers.spawn(async move {
                let _place = places.acquire_owned().await;
                customer(self.address, order, tally).await;
                finished.send_modify(|finished| *finished += 1);
            });
        }
        while customers.join_next().await.is_some() {}
        tally
    }
}

async fn customer(address: SocketAddr, order: Order, tally: Arc<Tally>) {
    let once = || insist(address, order, order.amount, Arc::clone(&tally));
    let heard = match order.trouble {
        Trouble::DoubleClick => {
            let (first, second) = tokio::join!(once(), once());
            if first == Heard::Charged { first } else { second }
        }
        Trouble::ChangesMind => {
            let first = once().await;
            let _refused = insist(address, order, order.amount + 1, Arc::clone(&tally)).await;
            first
        }
        Trouble::Nothing | Trouble::Slow | Trouble::Busy | Trouble::DiesAfterwards => once().await,
    };
    tally.ended(heard);
}
