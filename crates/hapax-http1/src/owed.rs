use std::{
    io,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};

use crate::{deadline::Deadline, limits::Limits, wire::Wire};

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
    pub fn took(&mut self, count: u64, least: u64) {
        if let Some((_, read)) = &mut self.since {
            *read += count;
            if *read >= least {
                self.since = None;
            }
        }
    }

    /// All was taken.
    pub const fn paid(&mut self) {
        self.since = None;
    }

    /// Until all is with the system, or the other side has not taken enough of it for too long.
    pub(crate) fn poll_written<IO>(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Wire<IO>,
        limits: &Limits,
    ) -> Poll<io::Result<()>>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let mut took = 0;
        if let Poll::Ready(written) = wire.poll_written(cx, &mut took) {
            self.paid();
            return Poll::Ready(written);
        }
        self.took(took, limits.least_read);
        self.poll(cx, limits.reader).map(Err)
    }

    /// The same for saying that no more comes.
    pub(crate) fn poll_shutdown<IO>(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Wire<IO>,
        limits: &Limits,
    ) -> Poll<io::Result<()>>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        match wire.poll_shutdown(cx) {
            Poll::Pending => self.poll(cx, limits.reader).map(Err),
            ready @ Poll::Ready(_) => ready,
        }
    }
}
