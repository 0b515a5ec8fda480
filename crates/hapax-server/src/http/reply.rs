use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::problem::Problem;

pub(crate) type Reply = Response<ReplyBody>;

/// Either all of it at once, or as it comes.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    Whole(Option<Bytes>),
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

pub(crate) fn whole(status: StatusCode, kind: &'static str, bytes: Bytes) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Some(bytes)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Nothing here may be kept by a cache or guessed to be something else.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// The answer with its bytes in hand, or as it was if they are still to come.
#[allow(clippy::result_large_err, reason = "the other side is as large")]
pub(crate) fn collected(reply: Reply) -> Result<Response<Bytes>, Reply> {
    let (head, body) = reply.into_parts();
    match body {
        ReplyBody::Whole(bytes) => Ok(Response::from_parts(head, bytes.unwrap_or_default())),
        ReplyBody::Stream(pieces) => Err(Response::from_parts(head, ReplyBody::Stream(pieces))),
    }
}

/// JSON.
pub(crate) fn answer<T: Serialize>(value: &T) -> Reply {
    // Most answers fit.
    let mut bytes = Vec::with_capacity(512);
    match serde_json::to_writer(&mut bytes, value) {
        Ok(()) => whole(StatusCode::OK, "application/json", bytes.into()),
        // All that is written here are texts and numbers; there is nothing that cannot be.
        Err(error) => problem(&crate::problem::store_down(error)),
    }
}

pub(crate) fn plain(kind: &'static str, text: impl Into<Bytes>) -> Reply {
    whole(StatusCode::OK, kind, text.into())
}

pub(crate) fn html(status: StatusCode, text: String) -> Reply {
    let mut reply = whole(status, "text/html; charset=utf-8", text.into());
    let headers = reply.headers_mut();
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
             form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
    );
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    reply
}

pub(crate) fn problem(problem: &Problem) -> Reply {
    let bytes = serde_json::to_vec(&problem.wire()).unwrap_or_default();
    let mut reply = whole(problem.status, "application/problem+json", bytes.into());
    if let Some(wait) = problem.retry_after {
        let seconds = wait.0.div_ceil(1_000).max(1);
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(Ok(allow)) = problem.allow.as_deref().map(HeaderValue::from_str) {
        reply.headers_mut().insert(header::ALLOW, allow);
    }
    if problem.status == StatusCode::UNAUTHORIZED {
        // Basic is there for the page: a browser asks for the key by itself.
        // On a line of its own, since a browser takes a line for one challenge.
        for ask in ["Bearer realm=\"hapax\"", "Basic realm=\"hapax\""] {
            reply.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(ask));
        }
    }
    reply
}

/// Server-sent events.
pub(crate) fn stream(pieces: mpsc::Receiver<Bytes>) -> Reply {
    let mut reply = Response::new(ReplyBody::Stream(pieces));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}
