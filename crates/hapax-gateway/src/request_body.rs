//! A request's body, read before anything is decided.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hapax_http::Pieces;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::{
    buffered::{Room, Taking},
    upload::Pacing,
};

/// A body, and its place in memory.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) bytes: Bytes,
    pub(crate) taking: Option<Taking>,
}

/// Why there is no whole body, and what there is of it.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) why: Why,
    pub(crate) first: Bytes,
    pub(crate) rest: Rest,
}

/// What is left of a body.
#[derive(Debug)]
pub(crate) struct Rest {
    body: Inflow,
    /// Why no more of it can be read. One of HTTP/2 says so once and then seems to be at its end, so whoever reads on is told again.
    failed: Option<Lost>,
}

/// A body as it comes, by either protocol.
#[derive(Debug)]
pub(crate) enum Inflow {
    One(hapax_http1::Incoming),
    Two(Incoming),
}

/// Why the rest of a body does not come.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    #[error(transparent)]
    One(#[from] hapax_http1::Lost),
    #[error(transparent)]
    Two(#[from] hyper::Error),
    #[error("the body was broken off")]
    BrokenOff,
}

impl Lost {
    /// Whether the body stayed away, rather than coming in pieces that are none.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self, Self::One(hapax_http1::Lost::TooSlow))
    }
}

impl Inflow {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        match self {
            Self::One(body) => Pin::new(body).poll_frame(cx).map_err(Lost::from),
            Self::Two(body) => match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(frame) => Poll::Ready(Some(frame.map_err(Lost::from))),
                None if is_whole(body) => Poll::Ready(None),
                None => Poll::Ready(Some(Err(Lost::BrokenOff))),
            },
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Self::One(body) => body.is_end_stream(),
            Self::Two(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::One(body) => body.size_hint(),
            Self::Two(body) => body.size_hint(),
        }
    }
}

/// Nothing more comes; whether that is its end. Our library takes it for one when a stream of HTTP/2 is reset without an
/// error, which is what an upstream says that has answered early, and what is also said by whoever leaves half-way.
fn is_whole(body: &Incoming) -> bool {
    body.is_end_stream() || body.size_hint().exact() == Some(0)
}

impl Rest {
    pub(crate) const fn of(body: Inflow) -> Self {
        Self { body, failed: None }
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        if let Some(lost) = self.failed.take() {
            return Poll::Ready(Some(Err(lost)));
        }
        self.body.poll_frame(cx)
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.failed.is_none() && self.body.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    TooLarge,
    TooSlow,
    Broken,
    /// Too many others are being read.
    NoRoom,
}

impl Why {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too large",
            Self::TooSlow => "too slow",
            Self::Broken => "broken body",
            Self::NoRoom => "no room",
        }
    }
}

pub(crate) async fn read(mut body: Rest, most: usize, pacing: Pacing, room: &Arc<Room>) -> Result<Read, Box<Unread>> {
    if body.is_end_stream() {
        return Ok(Read { bytes: Bytes::new(), taking: None });
    }
    let mut reading = Reading { taking: room.empty(), pieces: Pieces::default() };
    let read = match usize::try_from(body.size_hint().lower()) {
        Ok(length) if length <= most => match reading.taking.grow_to(length) {
            Ok(()) => timeout(pacing.body, reading.whole(&mut body, most)).await.unwrap_or(Err(Why::TooSlow)),
            Err(_) => Err(Why::NoRoom),
        },
        Ok(_) | Err(_) => Err(Why::TooLarge),
    };
    let Reading { taking, pieces } = reading;
    let bytes = pieces.joined();
    match read {
        Ok(()) => Ok(Read { bytes, taking: Some(taking) }),
        Err(why) => Err(Box::new(Unread { why, first: bytes, rest: body })),
    }
}

struct Reading {
    taking: Taking,
    pieces: Pieces,
}

impl Reading {
    async fn whole(&mut self, body: &mut Rest, most: usize) -> Result<(), Why> {
        while let Some(frame) = poll_fn(|cx| body.poll_frame(cx)).await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(lost) => {
                    let why = if lost.is_slow() { Why::TooSlow } else { Why::Broken };
                    body.failed = Some(lost);
                    return Err(why);
                }
            };
            // Trailers are no part of a body that is kept.
            let Ok(data) = frame.into_data() else { continue };
            self.pieces.add(data);
            if self.pieces.len() > most {
                return Err(Why::TooLarge);
            }
            self.taking.grow_to(self.pieces.len()).map_err(|_| Why::NoRoom)?;
        }
        Ok(())
    }
}
