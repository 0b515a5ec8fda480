//! A request's body, read before anything is decided.

use std::sync::Arc;

use bytes::Bytes;
use hapax_http::Pieces;
use http_body::Body;
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
    pub(crate) rest: Incoming,
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
    async fn whole(&mut self, body: &mut Incoming, most: usize) -> Result<(), Why> {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| if is_slow(&error) { Why::TooSlow } else { Why::Broken })?;
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
