//! Panics of what users give us, as values.

use std::{
    any::Any,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
};

use crate::ticket::Ticket;

/// What was thrown.
pub(crate) type Panic = Box<dyn Any + Send>;

/// A future whose panic is a value, so that a record never stays behind without an owner.
pub(crate) struct Caught<F, Fut> {
    start: Option<(F, Ticket)>,
    running: Option<Pin<Box<Fut>>>,
}

impl<F, Fut> Caught<F, Fut> {
    pub(crate) fn new(start: F, ticket: Ticket) -> Self {
        Self { start: Some((start, ticket)), running: None }
    }
}

// The closure is moved out before it is called and the future is boxed: nothing in here is pinned in place.
impl<F, Fut> Unpin for Caught<F, Fut> {}

impl<F, Fut> Future for Caught<F, Fut>
where
    F: FnOnce(Ticket) -> Fut,
    Fut: Future,
{
    type Output = Result<Fut::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            if let Some((start, ticket)) = this.start.take() {
                this.running = Some(Box::pin(start(ticket)));
            }
            match &mut this.running {
                Some(running) => running.as_mut().poll(context),
                None => Poll::Pending,
            }
        }));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => {
                this.running = None;
                Poll::Ready(Ok(value))
            }
            Err(panic) => {
                this.running = None;
                Poll::Ready(Err(panic))
            }
        }
    }
}

pub(crate) fn panic_text(panic: &Panic) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
