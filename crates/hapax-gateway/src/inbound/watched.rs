//! A client's connection as the server sees it: framing checked, pace kept.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use super::{limits::Limits, pace::Pace};
use crate::{
    deadline::Deadline,
    framing::{Framing, Phase},
};

/// Stands in for bytes that were refused: no server takes it for part of a head, and this one answers 400. It does not look at
/// all before it has seen the end of a head; in a body the end of a line could be taken for one of its own.
const REFUSED_HEAD: &[u8] = b"\0\r\n\r\n";
const REFUSED_BODY: &[u8] = b"\0";

/// What was read of a connection to tell the protocols apart.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    pub(crate) bytes: Vec<u8>,
    /// When the first of it came.
    pub(crate) since: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Watched<T> {
    io: T,
    limits: Arc<Limits>,
    pace: Pace,
    /// None on HTTP/2, where frames say their length once.
    framing: Option<Framing>,
    ahead: Ahead,
    /// What is left to be read after a refusal.
    refused: Option<&'static [u8]>,
    reading: Deadline,
    /// Since when the present phase waits for bytes.
    since: Option<(Phase, Instant)>,
    writing: Deadline,
    /// Since when the client owes us reading, and how much it has read since.
    stalled: Option<(Instant, u64)>,
}

impl<T> Watched<T> {
    pub(crate) fn http1(io: T, ahead: Ahead, limits: Arc<Limits>, pace: Pace) -> Self {
        Self::new(io, ahead, Some(Framing::default()), limits, pace)
    }

    pub(crate) fn http2(io: T, ahead: Ahead, limits: Arc<Limits>, pace: Pace) -> Self {
        Self::new(io, ahead, None, limits, pace)
    }

    fn new(io: T, ahead: Ahead, framing: Option<Framing>, limits: Arc<Limits>, pace: Pace) -> Self {
        Self {
            io,
            limits,
            pace,
            framing,
            ahead,
            refused: None,
            reading: Deadline::default(),
            since: None,
            writing: Deadline::default(),
            stalled: None,
        }
    }

    /// Lets pass what was read from `start` on, as far as it can be read in one way.
    fn checked(&mut self, buf: &mut ReadBuf<'_>, start: usize) {
        let Some(framing) = &mut self.framing else { return };
        let fresh = buf.filled().get(start..).unwrap_or_default();
        if let Err((passed, _)) = framing.see(fresh) {
            buf.set_filled(start + passed);
            self.refused = Some(if framing.phase() == Phase::Body { REFUSED_BODY } else { REFUSED_HEAD });
            self.refuse(buf);
        }
    }

    /// Passes on as much of the refusal as there is room for.
    fn refuse(&mut self, buf: &mut ReadBuf<'_>) {
        if let Some(left) = &mut self.refused {
            let (now, later) = left.split_at(left.len().min(buf.remaining()));
            buf.put_slice(now);
            *left = later;
        }
    }

    /// Nothing came. How long it may stay so depends on what is awaited.
    fn waiting(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(framing) = &self.framing else { return Poll::Pending };
        let phase = framing.phase();
        if phase == Phase::Between && self.pace.busy() {
            self.since = None;
            return Poll::Pending;
        }
        let since = match self.since {
            Some((same, since)) if same == phase => since,
            Some(_) | None => {
                let now = Instant::now();
                self.since = Some((phase, now));
                now
            }
        };
        let most = match phase {
            Phase::Between => self.limits.idle,
            Phase::Head => self.limits.head,
            Phase::Body => self.limits.body_pause,
        };
        ready!(self.reading.poll(cx, since + most));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client sent nothing for too long")))
    }

    /// The client does not read. Only real reading gives it more time.
    fn unread(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let (since, _) = *self.stalled.get_or_insert_with(|| (Instant::now(), 0));
        ready!(self.writing.poll(cx, since + self.limits.reader));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the client read nothing for too long"))
    }

    fn written(&mut self, count: usize) {
        if let Some((_, read)) = &mut self.stalled {
            *read += count as u64;
            if *read >= Limits::LEAST_READ {
                self.stalled = None;
            }
        }
    }

    fn wrote(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(count)) => {
                self.written(count);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.unread(cx).map(Err),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // After a refusal there is nothing more to read.
        if this.refused.is_some() || buf.remaining() == 0 {
            this.refuse(buf);
            return Poll::Ready(Ok(()));
        }
        let start = buf.filled().len();
        if this.ahead.bytes.is_empty() {
            match Pin::new(&mut this.io).poll_read(cx, buf) {
                Poll::Pending => return this.waiting(cx),
                Poll::Ready(read) => read?,
            }
        } else {
            let count = this.ahead.bytes.len().min(buf.remaining());
            buf.put_slice(&this.ahead.bytes[..count]);
            this.ahead.bytes.drain(..count);
        }
        let before = this.framing.as_ref().map(Framing::phase);
        this.checked(buf, start);
        // A head has one deadline from its first byte on, however it drips; a body one from its last.
        match this.framing.as_ref().map(Framing::phase) {
            Some(Phase::Head) if before != Some(Phase::Head) => {
                this.since = Some((Phase::Head, this.ahead.since.take().unwrap_or_else(Instant::now)));
            }
            Some(Phase::Head) => {}
            Some(Phase::Between | Phase::Body) | None => this.since = None,
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.wrote(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.wrote(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.io).poll_flush(cx) {
            Poll::Pending => self.unread(cx).map(Err),
            Poll::Ready(flushed) => {
                // Servers flush when all they had is written: nothing is owed any more.
                self.stalled = None;
                Poll::Ready(flushed)
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.io).poll_shutdown(cx) {
            Poll::Pending => self.unread(cx).map(Err),
            ready @ Poll::Ready(_) => ready,
        }
    }
}
