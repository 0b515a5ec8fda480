//! A request on a connection that was taken for it.

use std::{error::Error, sync::Arc};

use http::{
    HeaderValue, Request, Response, Uri, Version, header,
    uri::{Authority, Scheme},
};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    failure::{Failure, told},
    link::{Link, LinkBody},
    pool::Pool,
    shared::{Shared, Stream},
    shares::Share,
};
use crate::{body::Out, timed::Timed};

/// A connection, taken before anything is written down about the request.
pub(crate) struct Taken {
    pub(super) line: Line,
    /// Held as long as anything of the connection is.
    pub(super) share: Share,
}

/// A whole connection, or a stream of one.
pub(super) enum Line {
    Own(Box<Link>),
    Shared(Stream),
}

impl Taken {
    /// The connection, where others are on it too.
    pub(crate) fn shared(&self) -> Option<Shared> {
        match &self.line {
            Line::Own(_) => None,
            Line::Shared(stream) => Some(stream.connection.clone()),
        }
    }

    /// Sends the request once. A connection that turns out to be closed before the first byte is replaced by a fresh one,
    /// quietly, since nothing was sent; from the first byte on there is no second try.
    ///
    /// `reusable`: whether the connection may carry another request afterwards.
    pub(crate) async fn send(
        self,
        request: Box<Request<Out>>,
        reusable: bool,
        pool: &Arc<Pool>,
    ) -> Result<Response<Out>, Failure> {
        let Self { line, share } = self;
        let answered = match line.once(request, reusable, pool).await {
            Ok(answered) => answered,
            Err((failure, Some(request))) if failure.nothing_sent() => {
                let fresh = pool.fresh().await?;
                fresh.once(request, reusable, pool).await.map_err(|(failure, _)| failure)?
            }
            Err((failure, _)) => return Err(failure),
        };
        Ok(match answered {
            Answered::Own(response) => response.map(|body| Out::link(body.on(share))),
            Answered::Shared(response, permit) => {
                response.map(|body| Out::timed(Timed::new(body, pool.timing.body_idle, (permit, share))))
            }
        })
    }
}

/// The head of an answer, and what its body comes over.
enum Answered {
    Own(Response<Box<LinkBody>>),
    Shared(Response<Incoming>, OwnedSemaphorePermit),
}

impl Line {
    async fn once(
        self,
        mut request: Box<Request<Out>>,
        reusable: bool,
        pool: &Arc<Pool>,
    ) -> Result<Answered, (Failure, Option<Box<Request<Out>>>)> {
        match self {
            Self::Own(link) => {
                for_http1(&mut request);
                link.exchange(request, reusable, pool).await.map(Answered::Own)
            }
            Self::Shared(stream) => {
                let (mut sender, permit) = stream.into_parts();
                for_http2(&mut request, pool);
                match sender.try_send_request(*request).await {
                    Ok(response) => Ok(Answered::Shared(response, permit)),
                    Err(mut error) => {
                        let given_back = error.take_message().map(Box::new);
                        let why = told(error.error());
                        if given_back.is_some() || was_refused(error.error()) {
                            Err((Failure::NotSent(why), given_back))
                        } else {
                            Err((Failure::Broke(why), None))
                        }
                    }
                }
            }
        }
    }
}

/// A body of which nobody knows the length is announced, whatever the method: of a GET or a HEAD that announces nothing
/// our library takes it that there is none, and drops it.
fn for_http1(request: &mut Request<Out>) {
    let body = request.body();
    if !body.is_end_stream() && body.size_hint().exact().is_none() {
        request.headers_mut().insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// HTTP/2 has the host in the target and no `Host`, and frames instead of chunks.
fn for_http2(request: &mut Request<Out>, pool: &Pool) {
    // Of a connection that turned out to be closed.
    request.headers_mut().remove(header::TRANSFER_ENCODING);
    let host = request.headers_mut().remove(header::HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    if let Some(authority) = authority.or_else(|| pool.target().authority()) {
        parts.authority = Some(authority);
        parts.scheme = Some(if pool.target().tls { Scheme::HTTPS } else { Scheme::HTTP });
    }
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    *request.version_mut() = Version::HTTP_2;
}

/// The one answer of HTTP/2 that promises that nothing was done (RFC 9113, 8.7).
fn was_refused(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    cause.is_some_and(|error| error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
}
