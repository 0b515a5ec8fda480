use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The other side: it says these pieces, one after the other, when it has read so much.
#[derive(Debug)]
pub(super) struct Script {
    pieces: VecDeque<Vec<u8>>,
    end: End,
    paused: bool,
    /// What it has to read before it speaks.
    pub(super) listens_to: usize,
    /// The most that it takes at once, and altogether.
    pub(super) at_once: usize,
    pub(super) takes: usize,
    pub(super) seen: Arc<Mutex<Seen>>,
    waiting: Option<Waker>,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) bytes: Vec<u8>,
    pub(super) writes: usize,
    pub(super) reads: usize,
}

impl Seen {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }
}

#[derive(Debug)]
enum End {
    Open,
    Closed,
    Reset,
}

impl Script {
    pub(super) fn saying<P: AsRef<[u8]>>(pieces: impl IntoIterator<Item = P>) -> Self {
        Self {
            pieces: pieces.into_iter().map(|piece| piece.as_ref().to_vec()).collect(),
            end: End::Open,
            paused: false,
            listens_to: 1,
            at_once: usize::MAX,
            takes: usize::MAX,
            seen: Arc::default(),
            waiting: None,
        }
    }

    pub(super) fn closed(mut self) -> Self {
        self.end = End::Closed;
        self
    }

    pub(super) fn reset(mut self) -> Self {
        self.end = End::Reset;
        self
    }
}

impl AsyncRead for Script {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.seen.lock().bytes.len() < self.listens_to {
            self.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        // Each piece comes by itself.
        self.paused = !self.paused;
        if self.paused && !(self.pieces.is_empty() && matches!(self.end, End::Open)) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.pieces.pop_front() {
            Some(mut piece) => {
                let rest = piece.split_off(piece.len().min(buf.remaining()));
                if !rest.is_empty() {
                    self.pieces.push_front(rest);
                }
                buf.put_slice(&piece);
                self.seen.lock().reads += 1;
                Poll::Ready(Ok(()))
            }
            None => match self.end {
                End::Open => Poll::Pending,
                End::Closed => Poll::Ready(Ok(())),
                End::Reset => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            },
        }
    }
}

impl AsyncWrite for Script {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = bytes.len().min(self.at_once).min(self.takes);
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.takes -= count;
        let mut seen = self.seen.lock();
        seen.bytes.extend_from_slice(&bytes[..count]);
        seen.writes += 1;
        drop(seen);
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The body of a request.
#[derive(Debug)]
pub(super) struct Sent {
    frames: VecDeque<Result<Frame<Bytes>, &'static str>>,
    length: Option<u64>,
    /// No end of it comes.
    pub(super) endless: bool,
}

impl Sent {
    pub(super) fn nothing() -> Self {
        Self { frames: VecDeque::new(), length: Some(0), endless: false }
    }

    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let length = Some(bytes.len() as u64);
        Self { frames: VecDeque::from([Ok(Frame::data(bytes))]), length, endless: false }
    }

    pub(super) fn coming(
        length: Option<u64>,
        frames: impl IntoIterator<Item = Result<Frame<Bytes>, &'static str>>,
    ) -> Self {
        Self { frames: frames.into_iter().collect(), length, endless: false }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        match self.frames.pop_front() {
            None if self.endless => Poll::Pending,
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.length == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
