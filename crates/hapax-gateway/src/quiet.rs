use std::{
    task::{Context, Poll, ready},
    time::Duration,
};

use hapax_http1::Deadline;
use tokio::time::Instant;

/// How long somebody may say nothing. Time runs only while we listen: whoever is not asked cannot be late.
#[derive(Debug)]
pub(crate) struct Quiet {
    most: Duration,
    since: Option<Instant>,
    deadline: Deadline,
}

impl Quiet {
    pub(crate) fn new(most: Duration) -> Self {
        Self { most, since: None, deadline: Deadline::default() }
    }

    /// Nothing came. Ready: and that for too long.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_within(cx, self.most)
    }

    /// As [`Quiet::poll`], where there is less time than usual.
    pub(crate) fn poll_within(&mut self, cx: &mut Context<'_>, most: Duration) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        ready!(self.deadline.poll(cx, since + most.min(self.most)));
        Poll::Ready(())
    }

    /// Something came. Gives how long it was waited for.
    pub(crate) fn heard(&mut self) -> Duration {
        self.since.take().map_or(Duration::ZERO, |since| since.elapsed())
    }
}
