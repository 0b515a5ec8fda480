//! The body of an answer, or of a request of ours, on its way out.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    answer::{self, Announced, Framing},
    wire::Wire,
};

/// So many pieces with nothing in them are taken at once. Whoever has more of them is asked again after others had their turn.
const MOST_EMPTY: usize = 32;

#[derive(Debug)]
pub(crate) struct Outflow<B> {
    body: B,
    framing: Framing,
    announced: Option<Announced>,
    broken: bool,
}

/// What a look at the body came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Over,
    /// What is there has to be written first.
    Full,
    /// Nothing more of it is there yet.
    Dry,
    /// Nothing more of it comes, and it is not whole. Nothing is said about its end, so whoever reads it knows.
    Broken,
}

impl<B: Body<Data = Bytes> + Unpin> Outflow<B> {
    pub(crate) const fn new(body: B, framing: Framing, announced: Option<Announced>) -> Self {
        Self { body, framing, announced, broken: false }
    }

    /// Puts as much as is there, and has room, to what is written.
    pub(crate) fn fill<IO>(&mut self, cx: &mut Context<'_>, wire: &mut Wire<IO>) -> Flow
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        if self.broken {
            return Flow::Broken;
        }
        if matches!(self.framing, Framing::None | Framing::Counted(0)) {
            return Flow::Over;
        }
        let mut empty = 0;
        while wire.has_room() {
            if empty == MOST_EMPTY {
                cx.waker().wake_by_ref();
                return Flow::Dry;
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return Flow::Dry,
                Poll::Ready(Some(Err(_))) => return self.break_off(),
                Poll::Ready(None) => return self.end(wire, None),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(piece) => {
                        empty += usize::from(piece.is_empty());
                        // It is longer than it said.
                        if !self.put(piece, wire) {
                            return self.break_off();
                        }
                    }
                    Err(frame) => return self.end(wire, frame.into_trailers().ok().as_ref()),
                },
            }
            if self.framing == Framing::Counted(0) {
                return Flow::Over;
            }
        }
        Flow::Full
    }

    const fn break_off(&mut self) -> Flow {
        self.broken = true;
        Flow::Broken
    }

    /// Whether it may have this piece.
    fn put<IO>(&mut self, piece: Bytes, wire: &mut Wire<IO>) -> bool
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        match &mut self.framing {
            // An empty chunk would be the last.
            _ if piece.is_empty() => {}
            Framing::Counted(left) => match left.checked_sub(piece.len() as u64) {
                None => return false,
                Some(fewer) => {
                    *left = fewer;
                    wire.put(piece, b"");
                }
            },
            Framing::Chunked => {
                answer::chunk(wire.out(), piece.len());
                wire.put(piece, b"\r\n");
            }
            Framing::Closing => wire.put(piece, b""),
            Framing::None => {}
        }
        true
    }

    fn end<IO>(&mut self, wire: &mut Wire<IO>, trailers: Option<&HeaderMap>) -> Flow
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        match self.framing {
            // It is shorter than it said.
            Framing::Counted(_) => return self.break_off(),
            Framing::Chunked => answer::last_chunk(wire.out(), trailers.zip(self.announced.as_ref())),
            Framing::None | Framing::Closing => {}
        }
        self.framing = Framing::None;
        Flow::Over
    }
}
