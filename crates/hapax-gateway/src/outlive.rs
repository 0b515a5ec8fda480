//! Work that goes on when its client has gone.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use hapax_engine::in_place;
use tokio::runtime::Handle;

/// Runs in the task that awaits it, and moves to a task of its own when that one is dropped: so nobody pays for a task
/// that is not needed, and nothing that was begun is cut off by a disconnect.
pub(crate) struct Outlive<T: Send + 'static>(Option<Work<T>>);

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T: Send + 'static> Outlive<T> {
    #[inline(always)]
    pub(crate) fn new<F: Future<Output = T> + Send + 'static>(work: impl FnOnce() -> F) -> Self {
        Self(Some(in_place(work)))
    }
}

impl<T: Send + 'static> Future for Outlive<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let done = work.as_mut().poll(cx);
        if done.is_ready() {
            self.0 = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for Outlive<T> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// The client leaves while its payment is under way: the payment goes on.
    #[tokio::test]
    async fn dropped_work_goes_on_to_its_end() {
        let (go, gone) = oneshot::channel::<()>();
        let (done, seen) = oneshot::channel();
        let mut work = Outlive::new(|| async move {
            let _ = gone.await;
            let _ = done.send(7);
        });
        let pending = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut work).poll(cx).is_pending())).await;
        assert!(pending);
        drop(work);
        go.send(()).unwrap();
        assert_eq!(seen.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn awaited_work_is_not_run_again() {
        assert_eq!(Outlive::new(|| async { 7 }).await, 7);
    }
}
