use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hapax_http1::{Incoming, Lost};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Collected, Empty, Full, combinators::UnsyncBoxBody};

pub(crate) type Out = Response<UnsyncBoxBody<Bytes, Lost>>;

/// An answer whose length is known.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Out {
    Response::new(Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync())
}

pub(crate) fn empty(status: u16) -> Out {
    Response::builder().status(status).body(Empty::new().map_err(|never| match never {}).boxed_unsync()).unwrap()
}

/// Says what it hears, while it hears it.
pub(crate) fn echo(request: Request<Incoming>) -> Out {
    Response::new(request.into_body().boxed_unsync())
}

/// All of a request's body, or why there is no such thing.
pub(crate) async fn whole(body: Incoming) -> Result<Bytes, Lost> {
    body.collect().await.map(Collected::to_bytes)
}

/// A body that does not know how long it is.
#[derive(Debug)]
pub(crate) struct Pieces(VecDeque<Result<Frame<Bytes>, Lost>>);

impl Pieces {
    pub(crate) fn of<P: Into<Bytes>>(pieces: impl IntoIterator<Item = P>) -> Self {
        Self(pieces.into_iter().map(|piece| Ok(Frame::data(piece.into()))).collect())
    }

    pub(crate) fn then(mut self, last: Result<Frame<Bytes>, Lost>) -> Self {
        self.0.push_back(last);
        self
    }

    pub(crate) fn answer(self) -> Out {
        Response::new(self.boxed_unsync())
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Lost;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        Poll::Ready(self.0.pop_front())
    }
}
