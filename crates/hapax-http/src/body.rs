//! The bodies that go in and out: untouched, whole, or passed on while they come.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::pump::Pumped;

/// A body could not be read to its end.
///
/// It holds what the error said, and not the error: a bound that turns errors into boxes is more than the compiler can
/// follow through spawned futures where the error is a box already.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BodyError(String);

impl BodyError {
    pub(crate) fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

pin_project! {
    /// What the handler reads: the request's own body, or the bytes of it that were read for the fingerprint.
    #[project = RequestParts]
    #[derive(Debug)]
    pub enum RequestBody<B> {
        Through { #[pin] body: B },
        Whole { bytes: Bytes },
        /// Too long to be read for the fingerprint, and passed on all the same, since nothing is enforced.
        Resumed { first: Bytes, rest: Pin<Box<B>> },
    }
}

impl<B> RequestBody<B> {
    pub(crate) const fn resumed(first: Bytes, rest: Pin<Box<B>>) -> Self {
        Self::Resumed { first, rest }
    }

    pub(crate) const fn through(body: B) -> Self {
        Self::Through { body }
    }

    pub(crate) const fn whole(bytes: Bytes) -> Self {
        Self::Whole { bytes }
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.project() {
            RequestParts::Through { body } => body.poll_frame(context).map_err(BodyError::new),
            RequestParts::Whole { bytes } => Poll::Ready(left(bytes)),
            RequestParts::Resumed { first, rest } => match left(first) {
                Some(frame) => Poll::Ready(Some(frame)),
                None => rest.as_mut().poll_frame(context).map_err(BodyError::new),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Through { body } => body.is_end_stream(),
            Self::Whole { bytes } => bytes.is_empty(),
            Self::Resumed { first, rest } => first.is_empty() && rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Through { body } => body.size_hint(),
            Self::Whole { bytes } => SizeHint::with_exact(bytes.len() as u64),
            Self::Resumed { .. } => SizeHint::default(),
        }
    }
}

pin_project! {
    /// What the caller reads.
    #[project = ResponseParts]
    #[derive(Debug)]
    pub enum ResponseBody<B> {
        Through { #[pin] body: B },
        Whole { bytes: Bytes, trailers: Option<HeaderMap> },
        Pumped { pumped: Pumped },
    }
}

impl<B> ResponseBody<B> {
    pub(crate) const fn through(body: B) -> Self {
        Self::Through { body }
    }

    pub(crate) const fn whole(bytes: Bytes) -> Self {
        Self::Whole { bytes, trailers: None }
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.project() {
            ResponseParts::Through { body } => body.poll_frame(context).map_err(BodyError::new),
            ResponseParts::Whole { bytes, trailers } => {
                Poll::Ready(left(bytes).or_else(|| trailers.take().map(|trailers| Ok(Frame::trailers(trailers)))))
            }
            ResponseParts::Pumped { pumped } => pumped.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Through { body } => body.is_end_stream(),
            Self::Whole { bytes, trailers } => bytes.is_empty() && trailers.is_none(),
            Self::Pumped { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Through { body } => body.size_hint(),
            Self::Whole { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
            Self::Pumped { pumped } => pumped.size_hint(),
        }
    }
}

fn left<E>(bytes: &mut Bytes) -> Option<Result<Frame<Bytes>, E>> {
    let bytes = std::mem::take(bytes);
    (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))
}
