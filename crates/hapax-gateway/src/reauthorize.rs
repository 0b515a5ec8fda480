//! Asks the upstream whether a caller may still see what was recorded.

use std::sync::Arc;

use hapax_http::{Authorize, May, Permit, Replaying};
use http::{HeaderName, Method, Request, StatusCode, Uri, header, request, uri::PathAndQuery};
use tokio::time::timeout;

use crate::{
    body::Out,
    forward::{Forwarder, join_crumbs, via},
    inbound::Peer,
    outbound::{Account, Failure, Pool},
    route::HostHeader,
    tenant::Whose,
};

/// A sub-request with the caller's own headers. 2xx lets the answer out and a refusal keeps it in, so that a credential
/// which was revoked gets no replay. An upstream that cannot say is no refusal: the caller comes again.
pub(crate) struct Reauthorize {
    pool: Arc<Pool>,
    path: Box<str>,
    host: HostHeader,
    forwarder: Forwarder,
    /// On whose account is asked.
    whose: Whose,
    /// Whatever else carries a key: this question is no retry of anything.
    keys: Vec<HeaderName>,
}

/// What is about the request that asks, and not about who does.
const ABOUT_THE_REQUEST: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::RANGE,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("x-idempotency-key"),
];

impl Reauthorize {
    pub(crate) fn new(
        pool: Arc<Pool>,
        path: &str,
        host: HostHeader,
        forwarder: Forwarder,
        whose: Whose,
        keys: Vec<HeaderName>,
    ) -> Self {
        Self { pool, path: path.into(), host, forwarder, whose, keys }
    }

    async fn ask(&self, asking: &request::Parts) -> Result<May, Failure> {
        let request = self.question(asking).ok_or_else(|| Failure::NotSent("its path is none".to_owned()))?;
        let account = match asking.extensions.get::<Peer>() {
            Some(peer) => self.whose.account(asking, *peer),
            None => Account::Nobody,
        };
        let response = self.pool.take(&account).await?.send(Box::new(request), true, &self.pool).await?;
        let may = meant(response.status());
        // Read to its end, the connection can be used again.
        let _ = http_body_util::BodyExt::collect(http_body_util::Limited::new(response.into_body(), 64 * 1024)).await;
        Ok(may)
    }

    fn question(&self, asking: &request::Parts) -> Option<Request<Out>> {
        let path = PathAndQuery::try_from(&*self.path).ok()?;
        let mut request = Request::new(Out::whole(bytes::Bytes::new()));
        *request.method_mut() = Method::GET;
        *request.uri_mut() = Uri::from(self.pool.target().path(&path)?);
        let mut copied = asking.headers.clone();
        self.forwarder.strip(&mut copied);
        join_crumbs(&mut copied, asking.version);
        for name in ABOUT_THE_REQUEST.iter().chain(&self.keys) {
            copied.remove(name);
        }
        let theirs = asking.uri.authority().and_then(|known| http::HeaderValue::from_str(known.as_str()).ok());
        let theirs = copied.remove(header::HOST).or(theirs);
        // Whoever decides by where a request comes from must not be told by a stranger.
        if let Some(peer) = asking.extensions.get::<Peer>() {
            self.forwarder.trace(&mut copied, *peer, theirs.as_ref());
        }
        via(&mut copied, asking.version);
        let host = match self.host {
            HostHeader::Client => theirs,
            HostHeader::Upstream => None,
        };
        copied.insert(header::HOST, host.unwrap_or_else(|| self.pool.target().name.clone()));
        *request.headers_mut() = copied;
        Some(request)
    }
}

/// What the upstream's answer says of the caller; what it says of the upstream itself is no answer.
fn meant(status: StatusCode) -> May {
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => May::Unknown,
        status if status.is_success() => May::Yes,
        // To the log-in, mostly.
        status if status.is_redirection() || status.is_client_error() => May::No,
        _ => May::Unknown,
    }
}

impl Authorize for Reauthorize {
    fn may_see<'a>(&'a self, replaying: &'a Replaying<'a>) -> Permit<'a> {
        Box::pin(async move {
            match timeout(self.pool.timing.first_byte, self.ask(replaying.request)).await {
                Ok(Ok(may)) => may,
                // Without an answer nobody is let in, and nobody is sent away.
                Ok(Err(_)) | Err(_) => May::Unknown,
            }
        })
    }
}
