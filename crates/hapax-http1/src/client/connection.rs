//! One connection to an upstream.

use std::{
    future::{Future as _, poll_fn},
    pin::pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::unconstrained,
};

use super::{ending::Ending, fault::Fault, head::Head, reading::Reading, request, sending::Sending};
use crate::{
    answer::{Announced, Framing},
    outflow::Outflow,
    wire::Wire,
};

/// The most that the head of an answer may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Most {
    pub headers: usize,
    pub head_bytes: usize,
}

/// A connection that carries one request at a time.
#[derive(Debug)]
pub struct Client<IO, B> {
    pub(super) wire: Wire<IO>,
    most: Most,
    sending: Sending<B>,
    reading: Reading,
    /// Another request may follow, once the answer is at its end.
    keeps: bool,
}

impl<IO, B> Client<IO, B>
where
    IO: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes> + Unpin,
{
    pub fn new(io: IO, most: Most) -> Self {
        let (sending, reading) = (Sending::default(), Reading::default());
        Self { wire: Wire::new(io, b""), most, sending, reading, keeps: true }
    }

    pub const fn io(&self) -> &IO {
        self.wire.io()
    }

    /// Whether a request can be sent now. The other side may have closed it meanwhile, or said something that nobody asked for, which shows
    /// only here. Where nothing has happened the system is not asked.
    pub fn is_fit(&mut self, cx: &mut Context<'_>) -> bool {
        // Whoever has had its turn would be told that nothing has happened, whatever has.
        self.is_at_rest() && pin!(unconstrained(poll_fn(|cx| self.wire.poll_read(cx, 0)))).poll(cx).is_pending()
    }

    /// The last answer is at its end, and nothing came after it. What was held for it is let go.
    pub fn is_at_rest(&mut self) -> bool {
        let rests = self.keeps && self.reading.is_over() && self.wire.read.is_empty() && !self.wire.is_over;
        if rests {
            self.wire.read = BytesMut::new();
        }
        rests
    }

    /// Whether the system has taken anything of the last request.
    pub const fn has_sent(&self) -> bool {
        self.sending.sent > 0
    }

    /// Sends, and waits for the head of the answer. What of the request has not gone out by then goes out while the answer is read.
    pub async fn exchange(&mut self, request: Request<B>) -> Result<Response<()>, Fault> {
        let (head, body) = request.into_parts();
        let framing = request::begin(self.wire.out(), &head, &body);
        let announced = if framing == Framing::Chunked { Announced::in_head(&head.headers) } else { None };
        self.sending = Sending::new(Outflow::new(body, framing, announced));
        self.keeps = false;
        let (method, mut ending) = (head.method, Ending::default());
        // It is written, and takes room that nobody needs while the answer is waited for.
        drop((head.headers, head.uri, head.extensions));
        poll_fn(|cx| self.poll_head(cx, &method, &mut ending)).await
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        method: &Method,
        ending: &mut Ending,
    ) -> Poll<Result<Response<()>, Fault>> {
        loop {
            let more = self.sending.bring_on(cx, &mut self.wire)?;
            if !self.has_sent() && !self.wire.read.is_empty() {
                return Poll::Ready(Err(Fault::Unasked));
            }
            if let Some(head) = self.next_head(method, ending)? {
                return Poll::Ready(Ok(head));
            }
            if self.wire.is_over {
                return Poll::Ready(Err(Fault::Closed));
            }
            match self.wire.poll_read(cx, 0) {
                Poll::Ready(read) => {
                    read.map_err(Fault::Broken)?;
                }
                Poll::Pending if more => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The head of the answer, once all of it is there.
    fn next_head(&mut self, method: &Method, ending: &mut Ending) -> Result<Option<Response<()>>, Fault> {
        while let Some(bytes) = ending.find_next(&mut self.wire.read, self.most.head_bytes)? {
            let mut head = Head::read(&bytes, self.most.headers)?;
            if head.is_interim() {
                *ending = ending.after(bytes.len());
                continue;
            }
            self.reading = Reading::new(head.extent(method)?);
            // Who answers before it has the whole request may leave the rest unread, and take it for the next one.
            self.keeps = head.keeps && self.sending.is_over();
            return Ok(Some(head.response));
        }
        Ok(None)
    }

    /// All of the answer's body, where it came together with its head, or there is none.
    pub fn whole(&mut self) -> Option<Bytes> {
        let left = self.reading.size_hint().exact()?;
        if left > self.wire.read.len() as u64 {
            return None;
        }
        let piece = self.reading.next(&mut self.wire.read).ok()?;
        Some(piece.and_then(|piece| piece.into_data().ok()).unwrap_or_default())
    }

    /// What is next of the answer's body.
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        loop {
            if self.reading.is_over() {
                return Poll::Ready(None);
            }
            let more = self.sending.bring_on(cx, &mut self.wire)?;
            if let Some(frame) = self.reading.next(&mut self.wire.read)? {
                return Poll::Ready(Some(Ok(frame)));
            }
            if self.reading.is_over() {
                return Poll::Ready(None);
            }
            if self.wire.is_over {
                // A connection that broke while we wrote to it may look as if it were closed.
                if self.sending.is_stuck() {
                    return Poll::Ready(Some(Err(Fault::Closed)));
                }
                self.reading.close()?;
                continue;
            }
            match self.wire.poll_read(cx, self.reading.least()) {
                Poll::Ready(read) => {
                    read.map_err(Fault::Broken)?;
                }
                Poll::Pending if more => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether nothing more of the answer comes.
    pub const fn is_end_stream(&self) -> bool {
        self.reading.is_over()
    }

    pub fn size_hint(&self) -> SizeHint {
        self.reading.size_hint()
    }
}
