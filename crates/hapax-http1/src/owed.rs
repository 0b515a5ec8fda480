use std::{
    io,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use crate::deadline::Deadline;

/// What a client owes us: to read what it is given.
#[derive(Debug, Default)]
pub struct Owed {
    /// Since when, and how much it has read since.
    since: Option<(Instant, u64)>,
    deadline: Deadline,
}

impl Owed {
    /// The client takes nothing. Ready: for too long. Only real reading gives it more time.
    pub fn poll(&mut self, cx: &mut Context<'_>, most: Duration) -> Poll<io::Error> {
        let (since, _) = *self.since.get_or_insert_with(|| (Instant::now(), 0));
        ready!(self.deadline.poll(cx, since + most));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the client read nothing for too long"))
    }

    /// It took so much; with `least` of it all is well again.
    pub fn took(&mut self, count: usize, least: u64) {
        if let Some((_, read)) = &mut self.since {
            *read += count as u64;
            if *read >= least {
                self.since = None;
            }
        }
    }

    /// All was taken.
    pub const fn paid(&mut self) {
        self.since = None;
    }
}
