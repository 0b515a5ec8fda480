//! A client's HTTP/2 connection as the server sees it: nobody holds it by not reading.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hapax_http1::Owed;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::limits::Limits;

#[derive(Debug)]
pub(crate) struct Watched<T> {
    io: T,
    limits: Arc<Limits>,
    /// What was read to tell the protocols apart.
    ahead: Vec<u8>,
    owed: Owed,
}

impl<T> Watched<T> {
    pub(crate) fn new(io: T, ahead: Vec<u8>, limits: Arc<Limits>) -> Self {
        Self { io, limits, ahead, owed: Owed::default() }
    }

    fn unread(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.owed.poll(cx, self.limits.reader)
    }

    fn wrote(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(count)) => {
                self.owed.took(count as u64, Limits::LEAST_READ);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.unread(cx).map(Err),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let count = self.ahead.len().min(buf.remaining());
        buf.put_slice(&self.ahead[..count]);
        self.ahead.drain(..count);
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
                self.owed.paid();
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
