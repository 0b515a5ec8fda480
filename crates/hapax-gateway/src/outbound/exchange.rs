//! A request on a connection that was taken for it.

use std::{error::Error, sync::Arc};

use http::{
    Request, Response, Uri, Version, header,
    uri::{Authority, Scheme},
};
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    failure::{Failure, told},
    link::{Answer, Link},
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
            Answered::Own(response) => response.map(|body| body.on(share)),
            Answered::Shared(response, permit) => {
                response.map(|body| Out::timed(Timed::new(body, pool.timing.body_idle, (permit, share))))
            }
        })
    }
}

/// The head of an answer, and what its body comes over.
enum Answered {
    Own(Response<Answer>),
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
            Self::Own(link) => link.exchange(request, reusable, pool).await.map(Answered::Own),
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

/// HTTP/2 has the host in the target and no `Host`.
fn for_http2(request: &mut Request<Out>, pool: &Pool) {
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
