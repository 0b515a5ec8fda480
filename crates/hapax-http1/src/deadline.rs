use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// A deadline that moves with every request and is nearly never met.
///
/// The timer is only set when it would otherwise ring too late; when it rings too early it is set again. So a busy
/// connection pays for a comparison, not for a timer.
#[derive(Debug, Default)]
pub struct Deadline {
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// Whether the deadline has passed; if not, the task is woken when it does.
    pub fn poll(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if at < timer.deadline() {
            timer.as_mut().reset(at);
        }
        loop {
            match timer.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if at <= Instant::now() => return Poll::Ready(()),
                Poll::Ready(()) => timer.as_mut().reset(at),
            }
        }
    }
}
