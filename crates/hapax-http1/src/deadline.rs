use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use tokio::{
    task::unconstrained,
    time::{Instant, Sleep, sleep_until},
};

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
    ///
    /// Also to somebody who has used up its task's turn: else whoever does so each time is never late.
    pub fn poll(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if at < timer.deadline() {
            timer.as_mut().reset(at);
        }
        loop {
            match pin!(unconstrained(timer.as_mut())).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if at <= Instant::now() => return Poll::Ready(()),
                Poll::Ready(()) => timer.as_mut().reset(at),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use tokio::task::coop;

    use super::*;

    #[tokio::test]
    async fn who_uses_up_its_turn_each_time_is_late_all_the_same() {
        let (mut deadline, begun) = (Deadline::default(), Instant::now());
        let rang = poll_fn(|cx| {
            while let Poll::Ready(used) = coop::poll_proceed(cx) {
                used.made_progress();
            }
            if begun.elapsed() > Duration::from_secs(5) {
                return Poll::Ready(false);
            }
            cx.waker().wake_by_ref();
            deadline.poll(cx, begun + Duration::from_millis(20)).map(|()| true)
        });
        assert!(rang.await);
    }
}
