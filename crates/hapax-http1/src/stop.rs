use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tokio::sync::watch;

/// The server's word that it stops, as one connection listens to it.
///
/// Listening anew each time a connection waits would take a lock that all of them share. It is enough to have asked to be woken once:
/// whether there is anything to hear is then one look at a number.
pub(crate) struct Stop {
    word: watch::Receiver<bool>,
    waiting: Pin<Box<dyn Future<Output = ()> + Send>>,
    woken: Option<Waker>,
}

impl Stop {
    pub(crate) fn new(word: watch::Receiver<bool>) -> Self {
        let mut waits = word.clone();
        // Whoever could say so being gone is as good as said.
        let waiting = Box::pin(async move { drop(waits.wait_for(|stop| *stop).await) });
        Self { word, waiting, woken: None }
    }

    pub(crate) fn is_said(&self) -> bool {
        self.word.has_changed().is_err() || *self.word.borrow()
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let asked = self.woken.as_ref().is_some_and(|woken| woken.will_wake(cx.waker()));
        if asked && self.word.has_changed().is_ok_and(|changed| !changed) {
            return Poll::Pending;
        }
        if self.is_said() {
            return Poll::Ready(());
        }
        self.woken = Some(cx.waker().clone());
        self.waiting.as_mut().poll(cx)
    }
}
