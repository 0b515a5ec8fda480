//! Bodies on their way, in either direction.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};

use crate::{buffered::Taking, inbound::Answering, outbound::LinkBody, timed::Timed, upload::Upload};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that is sent: to a client, or to an upstream.
pub(crate) struct Out {
    kind: Kind,
    /// The client waits as long as this lives.
    answering: Option<Answering>,
    /// Its place in memory, until the client has taken it.
    taking: Option<[Taking; 2]>,
}

enum Kind {
    Whole(Option<Bytes>),
    /// Rare, and so set apart.
    Trailed(Box<(Option<Bytes>, Option<HeaderMap>)>),
    Upload(Box<Upload>),
    Timed(Box<Timed>),
    Link(Box<LinkBody>),
    Boxed(UnsyncBoxBody<Bytes, BoxError>),
}

impl Out {
    const fn of(kind: Kind) -> Self {
        Self { kind, answering: None, taking: None }
    }

    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self::of(Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    /// With what comes after the body. Its length stays unsaid, or there would be no place for trailers on the wire.
    pub(crate) fn trailed(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        match trailers {
            None => Self::whole(bytes),
            some => Self::of(Kind::Trailed(Box::new((Some(bytes).filter(|bytes| !bytes.is_empty()), some)))),
        }
    }

    pub(crate) fn upload(body: Upload) -> Self {
        Self::of(Kind::Upload(Box::new(body)))
    }

    pub(crate) fn timed(body: Timed) -> Self {
        Self::of(Kind::Timed(Box::new(body)))
    }

    pub(crate) const fn link(body: Box<LinkBody>) -> Self {
        Self::of(Kind::Link(body))
    }

    pub(crate) fn boxed<B>(body: B) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self::of(Kind::Boxed(UnsyncBoxBody::new(body.map_err(Into::into))))
    }

    pub(crate) fn until_sent(mut self, answering: Answering) -> Self {
        answering.begin();
        self.answering = Some(answering);
        self
    }

    /// How much memory it takes until it is sent; what comes from elsewhere comes as it is taken.
    pub(crate) fn held(&self) -> usize {
        match &self.kind {
            Kind::Whole(bytes) => bytes.as_ref().map_or(0, Bytes::len),
            Kind::Trailed(both) => both.0.as_ref().map_or(0, Bytes::len),
            Kind::Upload(_) | Kind::Timed(_) | Kind::Link(_) | Kind::Boxed(_) => 0,
        }
    }

    pub(crate) fn taking(mut self, taking: Option<[Taking; 2]>) -> Self {
        self.taking = taking;
        self
    }
}

impl Kind {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Trailed(both) => {
                let (bytes, trailers) = &mut **both;
                let data = bytes.take().map(Frame::data);
                Poll::Ready(data.or_else(|| trailers.take().map(Frame::trailers)).map(Ok))
            }
            Self::Upload(body) => Pin::new(&mut **body).poll_frame(cx),
            Self::Timed(body) => Pin::new(&mut **body).poll_frame(cx),
            Self::Link(body) => Pin::new(&mut **body).poll_frame(cx),
            Self::Boxed(body) => Pin::new(body).poll_frame(cx),
        }
    }
}

impl Body for Out {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        match &mut this.answering {
            None => this.kind.poll_frame(cx),
            Some(answering) => answering.piece(cx, |cx| this.kind.poll_frame(cx)),
        }
    }

    fn is_end_stream(&self) -> bool {
        if self.answering.as_ref().is_some_and(|answering| answering.left() > 0) {
            return false;
        }
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Trailed(both) => both.0.is_none() && both.1.is_none(),
            Kind::Upload(body) => body.is_end_stream(),
            Kind::Timed(body) => body.is_end_stream(),
            Kind::Link(body) => body.is_end_stream(),
            Kind::Boxed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let hint = match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Trailed(_) => SizeHint::default(),
            Kind::Upload(body) => body.size_hint(),
            Kind::Timed(body) => body.size_hint(),
            Kind::Link(body) => body.size_hint(),
            Kind::Boxed(body) => body.size_hint(),
        };
        match (hint.exact(), self.answering.as_ref().map_or(0, Answering::left) as u64) {
            (Some(length), left) if left > 0 => SizeHint::with_exact(length.saturating_add(left)),
            (Some(_) | None, _) => hint,
        }
    }
}

impl fmt::Debug for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Out").field("size", &self.size_hint()).finish_non_exhaustive()
    }
}
