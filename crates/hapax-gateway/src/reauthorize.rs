//! Asks the upstream whether a caller may still see what was recorded.

use std::sync::Arc;

use hapax_http::{Authorize, Permit, Replaying};
use http::{HeaderMap, Method, Request, Uri, header, uri::PathAndQuery};
use tokio::time::timeout;

use crate::{
    body::Out,
    forward::strip_request,
    outbound::{Failure, Pool},
    route::HostHeader,
};

/// A sub-request with the caller's own headers; 2xx lets the answer out, anything else keeps it in. So a credential that
/// was revoked gets no replay.
pub(crate) struct Reauthorize {
    pool: Arc<Pool>,
    path: Box<str>,
    host: HostHeader,
}

impl Reauthorize {
    pub(crate) fn new(pool: Arc<Pool>, path: &str, host: HostHeader) -> Self {
        Self { pool, path: path.into(), host }
    }

    async fn ask(&self, headers: &HeaderMap, authority: Option<&http::uri::Authority>) -> Result<bool, Failure> {
        let refused = |why: &str| Failure::NotSent(why.to_owned());
        let path = PathAndQuery::try_from(&*self.path).map_err(|_| refused("its path is none"))?;
        let path = self.pool.target().path(&path).ok_or_else(|| refused("its path is none"))?;
        let mut request = Request::new(Out::whole(bytes::Bytes::new()));
        *request.method_mut() = Method::GET;
        *request.uri_mut() = Uri::from(path);
        let mut copied = headers.clone();
        strip_request(&mut copied);
        for about_the_body in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::RANGE] {
            copied.remove(about_the_body);
        }
        let theirs = authority.and_then(|authority| http::HeaderValue::from_str(authority.as_str()).ok());
        let host = match self.host {
            HostHeader::Client => copied.get(header::HOST).cloned().or(theirs),
            HostHeader::Upstream => None,
        };
        copied.insert(header::HOST, host.unwrap_or_else(|| self.pool.target().name.clone()));
        *request.headers_mut() = copied;
        let response = self.pool.take().await?.send(request, true, &self.pool).await?;
        let allowed = response.status().is_success();
        // Read to its end, the connection can be used again.
        let _ = http_body_util::BodyExt::collect(http_body_util::Limited::new(response.into_body(), 64 * 1024)).await;
        Ok(allowed)
    }
}

impl Authorize for Reauthorize {
    fn may_see<'a>(&'a self, replaying: &'a Replaying<'a>) -> Permit<'a> {
        Box::pin(async move {
            let asked = self.ask(&replaying.request.headers, replaying.request.uri.authority());
            // Without an answer nobody is let in.
            matches!(timeout(self.pool.timing.first_byte, asked).await, Ok(Ok(true)))
        })
    }
}
