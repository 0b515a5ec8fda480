//! Bodies on their way, in either direction.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use tokio::sync::Notify;

use crate::{inbound::Answering, outbound::LinkBody};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that is sent: to a client, or to an upstream.
pub(crate) struct Out {
    kind: Kind,
    /// The client waits as long as this lives.
    answering: Option<Answering>,
    /// Told when the body was read to its end, or dropped.
    ended: Option<Arc<Notify>>,
}

enum Kind {
    Whole(Option<Bytes>),
    Incoming(Incoming),
    Link(Box<LinkBody>),
    Boxed(UnsyncBoxBody<Bytes, BoxError>),
}

impl Out {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self { kind: Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())), answering: None, ended: None }
    }

    pub(crate) const fn incoming(body: Incoming) -> Self {
        Self { kind: Kind::Incoming(body), answering: None, ended: None }
    }

    pub(crate) fn link(body: LinkBody) -> Self {
        Self { kind: Kind::Link(Box::new(body)), answering: None, ended: None }
    }

    pub(crate) fn boxed<B>(body: B) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self { kind: Kind::Boxed(UnsyncBoxBody::new(body.map_err(Into::into))), answering: None, ended: None }
    }

    pub(crate) fn telling(mut self, ended: Arc<Notify>) -> Self {
        self.ended = Some(ended);
        self
    }

    pub(crate) fn until_sent(mut self, answering: Answering) -> Self {
        self.answering = Some(answering);
        self
    }
}

impl Body for Out {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.kind {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Incoming(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Kind::Link(body) => Pin::new(&mut **body).poll_frame(cx),
            Kind::Boxed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Incoming(body) => body.is_end_stream(),
            Kind::Link(body) => body.is_end_stream(),
            Kind::Boxed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Incoming(body) => body.size_hint(),
            Kind::Link(body) => body.size_hint(),
            Kind::Boxed(body) => body.size_hint(),
        }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        // The server drops a body as soon as it has all of it.
        if let Some(ended) = &self.ended {
            ended.notify_one();
        }
    }
}

impl fmt::Debug for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Out").field("size", &self.size_hint()).finish_non_exhaustive()
    }
}
