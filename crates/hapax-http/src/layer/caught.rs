use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

/// The work panicked. What it said about it went to the panic hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Panicked;

/// A future whose panic is a value, so that a record never stays behind without an owner.
pub(super) struct Caught<F>(Option<Pin<Box<F>>>);

impl<F: Future> Caught<F> {
    pub(super) fn new(work: F) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.0 else { return Poll::Ready(Err(Panicked)) };
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(done)) => {
                self.0 = None;
                Poll::Ready(Ok(done))
            }
            Err(_panic) => {
                self.0 = None;
                Poll::Ready(Err(Panicked))
            }
        }
    }
}
