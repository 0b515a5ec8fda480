//! A socket whose peer may be slow, but not for ever.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::rest::Rest;
use crate::limits::Limits;

/// How long we listen to a peer that is still speaking when all has been said to it.
const PARTING: Duration = Duration::from_secs(2);

/// Cuts the connection when the peer takes nothing for too long. Reading has time limits of its own.
///
/// A socket that is closed with something unread in it takes back what was last written. So, where the peer is still
/// speaking, our side alone is closed at first, and what comes is read away for a moment.
pub(super) struct Guarded<S> {
    stream: S,
    most: Duration,
    stuck: bool,
    timer: Pin<Box<Sleep>>,
    rest: Arc<Rest>,
    /// Once our side is closed: how much more is read away.
    parting: Option<usize>,
    most_parting: usize,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S, limits: &Limits, rest: Arc<Rest>) -> Self {
        let most = limits.write_time;
        let timer = Box::pin(sleep(most));
        Self { stream, most, stuck: false, timer, rest, parting: None, most_parting: limits.body }
    }

    /// What a write came to, with the time it may take.
    fn judge<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = false;
            return written;
        }
        if !self.stuck {
            self.stuck = true;
            let until = Instant::now() + self.most;
            self.timer.as_mut().reset(until);
        }
        match self.timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads too slowly"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.rest.heard();
        }
        read
    }
}

impl<S: AsyncRead + Unpin> Guarded<S> {
    /// Reads away what comes until the peer has closed, too, or enough has come, or it has taken too long.
    fn poll_part(&mut self, cx: &mut Context<'_>, mut left: usize) -> Poll<()> {
        let mut buffer = [0; 8192];
        while self.timer.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut buffer);
            let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, &mut buffer) else {
                self.parting = Some(left);
                return Poll::Pending;
            };
            let came = buffer.filled().len();
            if read.is_err() || came == 0 || came > left {
                break;
            }
            left -= came;
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.judge(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let left = match self.parting {
            Some(left) => left,
            None => {
                let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
                let shut = ready!(self.judge(cx, shut));
                if shut.is_err() || !self.rest.is_speaking() {
                    return Poll::Ready(shut);
                }
                let until = Instant::now() + PARTING;
                self.timer.as_mut().reset(until);
                self.most_parting
            }
        };
        self.poll_part(cx, left).map(Ok)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
