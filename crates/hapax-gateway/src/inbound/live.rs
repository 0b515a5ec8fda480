//! What still runs, and how it is told to come to its end.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{Notify, watch};

/// Counts what must not be cut off: connections, and work that outlives them.
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    count: AtomicUsize,
    ended: Notify,
}

impl Live {
    pub(crate) fn working(&self) -> Working {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        Working(self.clone())
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// Until nothing runs any more.
    pub async fn ended(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.count() == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// One piece of live work, until it is dropped.
#[derive(Debug)]
pub(crate) struct Working(Live);

impl Drop for Working {
    fn drop(&mut self) {
        if self.0.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.0.ended.notify_waiters();
        }
    }
}

/// The switch that ends a gateway.
#[derive(Debug)]
pub struct Stop(watch::Sender<bool>);

/// What watches the switch.
#[derive(Clone, Debug)]
pub struct Stopping(watch::Receiver<bool>);

impl Stop {
    #[must_use]
    pub fn new() -> (Self, Stopping) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stopping(receiver))
    }

    /// No new work from here on; what is live comes to its end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stopping {
    /// The switch itself, for whoever watches it in its own way.
    pub(crate) fn word(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }

    /// Until the switch is thrown, or dropped.
    pub async fn stopped(&mut self) {
        // A switch that is gone cannot be thrown any more, which is as good as thrown.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}
