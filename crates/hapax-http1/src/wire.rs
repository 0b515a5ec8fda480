//! A socket, what was read of it, and what is to be written to it.

use std::{
    cell::Cell,
    future::Future,
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// What is read at once where nobody knows how much comes. Most requests fit.
const ROOM: usize = 16 * 1024;
/// The most that is read at once of what is known to come.
const MOST_ROOM: usize = 64 * 1024;
/// A piece up to this is copied behind what else is written, and goes out with it.
const COPIED: usize = 16 * 1024;
/// What is kept at hand for the next answer.
const KEPT: usize = 64 * 1024;

thread_local! {
    /// Where all connections of a thread are read into and answered from: one place, which is always in the processor's cache, instead
    /// of one for each connection. Whoever waits holds nothing.
    static READ: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static OUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

#[derive(Debug)]
pub(crate) struct Wire<IO> {
    io: IO,
    /// What was read and belongs to nobody yet.
    pub(crate) read: BytesMut,
    /// The other side has said all it will say.
    pub(crate) is_over: bool,
    /// What is to be written: first this, from here on, then the piece that is too long to be copied, then what comes after it.
    out: Vec<u8>,
    gone: usize,
    long: Bytes,
    after: &'static [u8],
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Wire<IO> {
    pub(crate) fn new(io: IO, ahead: &[u8]) -> Self {
        Self {
            io,
            read: BytesMut::from(ahead),
            is_over: false,
            out: Vec::new(),
            gone: 0,
            long: Bytes::new(),
            after: b"",
        }
    }

    pub(crate) const fn io(&self) -> &IO {
        &self.io
    }

    /// Reads what there is. 0: nothing will come any more. `expected`: how much is known to come.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, expected: u64) -> Poll<io::Result<usize>> {
        if self.read.is_empty() {
            // Lets go of what was read before.
            self.read = BytesMut::new();
        }
        let room = usize::try_from(expected).map_or(MOST_ROOM, |expected| expected.clamp(ROOM, MOST_ROOM));
        let mut place = READ.take();
        place.clear();
        place.reserve(room);
        let read = pin!(self.io.read_buf(&mut place)).poll(cx);
        self.read.extend_from_slice(&place);
        READ.set(place);
        let count = ready!(read)?;
        self.is_over |= count == 0;
        Poll::Ready(Ok(count))
    }

    /// What is written next is put here.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        if self.out.capacity() == 0 {
            self.out = OUT.take();
        }
        if self.gone > 0 {
            // Only behind a slow client; what it has taken would otherwise pile up for as long as there is more to come.
            self.out.drain(..self.gone);
            self.gone = 0;
        }
        &mut self.out
    }

    /// Puts a piece behind what is to be written, and what comes after it.
    pub(crate) fn put(&mut self, piece: Bytes, after: &'static [u8]) {
        if piece.len() <= COPIED {
            let out = self.out();
            out.extend_from_slice(&piece);
            out.extend_from_slice(after);
        } else {
            self.long = piece;
            self.after = after;
        }
    }

    /// Whether another piece may be put.
    pub(crate) fn has_room(&self) -> bool {
        self.long.is_empty() && self.out.len() - self.gone < COPIED
    }

    /// Until all is with the system. `took` grows by what it has taken.
    pub(crate) fn poll_written(&mut self, cx: &mut Context<'_>, took: &mut u64) -> Poll<io::Result<()>> {
        loop {
            let short = self.out.get(self.gone..).unwrap_or_default();
            let wrote = match (short.is_empty(), self.long.is_empty()) {
                (true, true) => break,
                (false, true) => Pin::new(&mut self.io).poll_write(cx, short),
                (true, false) => Pin::new(&mut self.io).poll_write(cx, &self.long),
                (false, false) => {
                    let both = [IoSlice::new(short), IoSlice::new(&self.long)];
                    Pin::new(&mut self.io).poll_write_vectored(cx, &both)
                }
            };
            match ready!(wrote)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => {
                    *took += count as u64;
                    self.wrote(count);
                }
            }
        }
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        let place = std::mem::take(&mut self.out);
        if place.capacity() > 0 && place.capacity() <= KEPT {
            OUT.set(place);
        }
        Poll::Ready(Ok(()))
    }

    fn wrote(&mut self, count: usize) {
        let short = count.min(self.out.len() - self.gone);
        self.gone += short;
        if self.gone == self.out.len() {
            self.out.clear();
            self.gone = 0;
        }
        if count > short {
            self.long.advance(count - short);
            if self.long.is_empty() {
                // Also of nothing left it would hold all that it was.
                self.long = Bytes::new();
                self.out.extend_from_slice(self.after);
            }
        }
    }

    /// Says that no more comes from here.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    /// The memory that it holds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.read.capacity() + self.out.capacity() + self.long.len()
    }

    /// Reads and lets go. 0: nothing will come any more.
    pub(crate) fn poll_read_away(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut nowhere = [0; 8 * 1024];
        let mut nowhere = ReadBuf::new(&mut nowhere);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut nowhere))?;
        Poll::Ready(Ok(nowhere.filled().len()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// Somebody reads a long answer a little slower than it comes: some of it is always waiting. What was read by then was kept
    /// until the last byte was, and an answer without end took memory without end.
    #[tokio::test]
    async fn what_a_slow_client_has_read_is_let_go() {
        let (mut near, far) = duplex(1_000);
        let mut wire = Wire::new(far, b"");
        let mut read = [0; 1_000];
        for _ in 0..2_000 {
            // Both sides are one task here, which may do only so much at a time.
            tokio::task::yield_now().await;
            while wire.has_room() {
                wire.put(Bytes::from_static(&[7; 900]), b"");
            }
            let written = std::future::poll_fn(|cx| Poll::Ready(wire.poll_written(cx, &mut 0))).await;
            assert!(written.is_pending());
            assert!(wire.out.len() < 2 * COPIED, "{} bytes are kept", wire.out.len());
            near.read_exact(&mut read).await.unwrap();
            assert_eq!(read, [7; 1_000]);
        }
    }
}
