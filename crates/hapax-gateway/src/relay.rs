//! A recorded answer that is passed on while it comes.
//!
//! A task of its own reads from the upstream and hands on piece by piece. So the lease is kept while the stream runs,
//! the end is recorded before the client sees it, and a client that leaves does not leave the record without an end.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hapax_engine::Ticket;
use hapax_http::{Guard, Streaming};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::{sync::mpsc, time::timeout};

use crate::{
    body::{BoxError, Out},
    inbound::Working,
};

/// What the client's end is told. Silence is not an end: a relay that is gone without a word broke off.
enum Piece {
    Frame(Frame<Bytes>),
    End,
    Broken(BoxError),
}

#[derive(Debug, thiserror::Error)]
#[error("the answer broke off; send the request again with the same key")]
struct BrokeOff;

/// Starts passing on. `working` keeps the process alive until the end is recorded.
pub(crate) fn relay(
    guard: Guard,
    ticket: Ticket,
    streaming: Streaming,
    first: Bytes,
    rest: Out,
    working: Working,
) -> Out {
    let size = match rest.size_hint().exact() {
        Some(length) => SizeHint::with_exact(length.saturating_add(first.len() as u64)),
        None => SizeHint::default(),
    };
    // One piece under way: a slow reader slows the upstream down, not us.
    let (sender, receiver) = mpsc::channel(1);
    let pump = Pump { streaming, rest, to: Some(sender), counted: size.exact().is_some() };
    tokio::spawn(async move {
        let (engine, limit) = (guard.engine().clone(), guard.limits().orphaned_stream);
        // A lease that was lost ends a stream that may be run again; all others go on to their end.
        let _ = ticket.during(&engine, pump.run(first, limit)).await;
        drop(working);
    });
    Out::boxed(Relayed { receiver, size, ended: false })
}

struct Pump {
    streaming: Streaming,
    rest: Out,
    /// None: the client has gone.
    to: Option<mpsc::Sender<Piece>>,
    /// The client counts the bytes, so the last of them marks the end.
    counted: bool,
}

impl Pump {
    async fn run(mut self, first: Bytes, orphaned: std::time::Duration) {
        if !first.is_empty() {
            self.streaming.push(&first);
            self.hand_on(Frame::data(first)).await;
        }
        loop {
            let next = match &self.to {
                Some(to) => tokio::select! {
                    biased;
                    next = self.rest.frame() => next,
                    () = to.closed() => {
                        self.to = None;
                        continue;
                    }
                },
                // Nobody reads any more: it is read to its end for the record, but not for ever.
                None => match timeout(orphaned, self.rest.frame()).await {
                    Ok(next) => next,
                    Err(_) => return self.streaming.broken().await,
                },
            };
            match next {
                None => return self.end(None).await,
                Some(Err(error)) => {
                    self.streaming.broken().await;
                    if let Some(to) = &self.to {
                        let _ = to.send(Piece::Broken(error)).await;
                    }
                    return;
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.streaming.push(&data);
                        if self.counted && self.rest.is_end_stream() {
                            return self.end(Some(Frame::data(data))).await;
                        }
                        self.hand_on(Frame::data(data)).await;
                    }
                    Err(frame) => return self.end(frame.into_trailers().ok().map(Frame::trailers)).await,
                },
            }
        }
    }

    async fn hand_on(&mut self, frame: Frame<Bytes>) {
        if let Some(to) = &self.to
            && to.send(Piece::Frame(frame)).await.is_err()
        {
            self.to = None;
        }
    }

    /// Records the end; then what marks it goes out.
    async fn end(self, last: Option<Frame<Bytes>>) {
        let ended = self.streaming.end().await;
        let Some(to) = self.to else { return };
        let mark = match ended {
            Ok(()) => Piece::End,
            Err(cut) => Piece::Broken(cut.into()),
        };
        if let (Piece::End, Some(last)) = (&mark, last)
            && to.send(Piece::Frame(last)).await.is_err()
        {
            return;
        }
        let _ = to.send(mark).await;
    }
}

/// The client's end.
struct Relayed {
    receiver: mpsc::Receiver<Piece>,
    size: SizeHint,
    ended: bool,
}

impl Body for Relayed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let piece = ready!(self.receiver.poll_recv(cx));
        self.ended = !matches!(piece, Some(Piece::Frame(_)));
        Poll::Ready(match piece {
            Some(Piece::Frame(frame)) => Some(Ok(frame)),
            Some(Piece::End) => None,
            Some(Piece::Broken(error)) => Some(Err(error)),
            None => Some(Err(BrokeOff.into())),
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}
