use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tokio::{sync::watch, task::unconstrained};

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
        // Whoever could say so being gone is as good as said. It is polled once to be woken, so that one time must not be put off
        // because the task has done enough for now.
        let waiting = Box::pin(unconstrained(async move { drop(waits.wait_for(|stop| *stop).await) }));
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

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, time::Duration};

    use tokio::{
        task::{consume_budget, yield_now},
        time::{sleep, timeout},
    };

    use super::*;

    /// A client that sends many requests at once has its connection first wait when its task has done enough for one turn. It was never
    /// woken by the stop then, and the server waited for it.
    #[tokio::test]
    async fn a_task_that_has_done_enough_for_now_still_hears_the_stop() {
        let (say, word) = watch::channel(false);
        let hears = tokio::spawn(async move {
            let mut stop = Stop::new(word);
            poll_fn(|cx| {
                while pin!(consume_budget()).poll(cx).is_ready() {}
                assert!(stop.poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            yield_now().await;
            poll_fn(|cx| stop.poll(cx)).await;
        });
        sleep(Duration::from_millis(100)).await;
        say.send_replace(true);
        timeout(Duration::from_secs(10), hears).await.expect("it was not woken").unwrap();
    }
}
