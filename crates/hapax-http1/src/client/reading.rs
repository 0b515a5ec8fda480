use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};

use super::{fault::Fault, length::Extent};
use crate::grammar::{Body, Length};

/// The bytes of trailers that are listened to.
const MOST_TRAILERS: usize = 16 * 1024;

/// How far the body of an answer was read.
#[derive(Debug, Default)]
pub(super) enum Reading {
    #[default]
    Over,
    Delimited(Body),
    /// Its end is that of the connection.
    UntilClosed,
}

impl Reading {
    pub(super) fn new(extent: Extent) -> Self {
        match extent {
            Extent::Counted(0) => Self::Over,
            Extent::Counted(length) => Self::Delimited(Body::of_answer(Length::Counted(length), 0)),
            Extent::Chunked => Self::Delimited(Body::of_answer(Length::Chunked, MOST_TRAILERS)),
            Extent::UntilClosed => Self::UntilClosed,
        }
    }

    pub(super) const fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }

    /// How much is certain to come.
    pub(super) const fn least(&self) -> u64 {
        match self {
            Self::Delimited(body) => body.least(),
            Self::Over | Self::UntilClosed => 0,
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Over => SizeHint::with_exact(0),
            Self::Delimited(body) => body.left().map_or_else(SizeHint::default, SizeHint::with_exact),
            Self::UntilClosed => SizeHint::default(),
        }
    }

    /// What is next among what was read. None: there is no more of it yet, or at all.
    pub(super) fn next(&mut self, read: &mut BytesMut) -> Result<Option<Frame<Bytes>>, Fault> {
        match self {
            Self::Over => Ok(None),
            Self::UntilClosed if read.is_empty() => Ok(None),
            Self::UntilClosed => Ok(Some(Frame::data(std::mem::take(read).freeze()))),
            Self::Delimited(body) => {
                let piece = body.next(read).map_err(Fault::Body)?;
                if !body.is_over() {
                    return Ok(piece.map(Frame::data));
                }
                let trailers = body.trailers();
                *self = Self::Over;
                Ok(piece.map(Frame::data).or_else(|| trailers.map(Frame::trailers)))
            }
        }
    }

    /// The connection is closed, and all that came of it was read.
    pub(super) fn close(&mut self) -> Result<(), Fault> {
        match self {
            Self::Over => Ok(()),
            Self::UntilClosed => {
                *self = Self::Over;
                Ok(())
            }
            Self::Delimited(_) => Err(Fault::Closed),
        }
    }
}
