//! A request's body, read before anything is decided.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use hapax_http::Pieces;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
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
    pub(crate) body: Incoming,
    /// Why no more of it can be read. A body says so once and then seems to be at its end, so whoever reads on is told again.
    failed: Option<hyper::Error>,
}

impl Rest {
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.failed.take() {
            Some(error) => Poll::Ready(Some(Err(error))),
            None => Pin::new(&mut self.body).poll_frame(cx),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.failed.is_none() && self.body.is_end_stream()
    }
}

impl From<Incoming> for Rest {
    fn from(body: Incoming) -> Self {
        Self { body, failed: None }
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

pub(crate) async fn read(
    mut body: Incoming,
    most: usize,
    pacing: Pacing,
    room: &Arc<Room>,
) -> Result<Read, Box<Unread>> {
    if body.is_end_stream() {
        return Ok(Read { bytes: Bytes::new(), taking: None });
    }
    let mut reading = Reading { taking: room.empty(), pieces: Pieces::default(), failed: None };
    let read = match usize::try_from(body.size_hint().lower()) {
        Ok(length) if length <= most => match reading.taking.grow_to(length) {
            Ok(()) => timeout(pacing.body, reading.whole(&mut body, most)).await.unwrap_or(Err(Why::TooSlow)),
            Err(_) => Err(Why::NoRoom),
        },
        Ok(_) | Err(_) => Err(Why::TooLarge),
    };
    let Reading { taking, pieces, failed } = reading;
    let bytes = pieces.joined();
    match read {
        Ok(()) => Ok(Read { bytes, taking: Some(taking) }),
        Err(why) => Err(Box::new(Unread { why, first: bytes, rest: Rest { body, failed } })),
    }
}

struct Reading {
    taking: Taking,
    pieces: Pieces,
    failed: Option<hyper::Error>,
}

impl Reading {
    async fn whole(&mut self, body: &mut Incoming, most: usize) -> Result<(), Why> {
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    let why = if is_slow(&error) { Why::TooSlow } else { Why::Broken };
                    self.failed = Some(error);
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

/// Whether a body stayed away, rather than coming in pieces that are none.
pub(crate) fn is_slow(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
}
