//! Takes connections, a bounded number of them, until it is told to stop.

use std::{convert::Infallible, future::Future, io, net::IpAddr, pin::Pin, sync::Arc, time::Duration};

use hapax_core::Millis;
use hapax_engine::in_place;
use http::{HeaderValue, header};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener},
    sync::watch,
};

use super::{
    guarded::Guarded,
    places::Places,
    reply::Reply,
    rest::{Inflow, Rest, read_away},
};
use crate::{
    limits::Limits,
    problem::{Next, Problem},
};

/// Answers requests; it has no errors of its own.
pub(crate) trait Handler: Clone + Send + Sync + 'static {
    fn handle(&self, request: Box<Request<Inflow>>, peer: Option<Peer>) -> impl Future<Output = Reply> + Send;
}

/// Where connections come from.
pub(crate) trait Source: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// What requests are read from, once the two sides have greeted each other.
    type Ready: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    fn take(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<Peer>)>> + Send;
    /// Greets; in the connection's own task, so that nobody waits for a slow one.
    fn greet(&self) -> impl FnOnce(Self::Stream) -> Greeted<Self::Ready> + Send + 'static;
    /// Whether somebody without a place can be told so in plain words.
    const PLAIN: bool;
}

/// Who is at the other end, as the kernel knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Peer {
    Host(IpAddr),
    /// The user whose process it is.
    User(u32),
}

impl Peer {
    /// Of version 6, the network: whoever has one address there has all of them.
    fn at(address: IpAddr) -> Self {
        Self::Host(match address.to_canonical() {
            IpAddr::V6(long) => IpAddr::V6((u128::from(long) >> 64 << 64).into()),
            short @ IpAddr::V4(_) => short,
        })
    }
}

pub(crate) type Greeted<R> = Pin<Box<dyn Future<Output = io::Result<R>> + Send>>;

fn at_once<S: Send + 'static>(stream: S) -> Greeted<S> {
    Box::pin(std::future::ready(Ok(stream)))
}

impl Source for TcpListener {
    type Stream = tokio::net::TcpStream;
    type Ready = Self::Stream;
    const PLAIN: bool = true;
    fn greet(&self) -> impl FnOnce(Self::Stream) -> Greeted<Self::Ready> + Send + 'static {
        at_once
    }
    async fn take(&self) -> io::Result<(Self::Stream, Option<Peer>)> {
        let (stream, from) = self.accept().await?;
        // Small answers must not wait for more to come.
        let _as_it_was = stream.set_nodelay(true);
        Ok((stream, Some(Peer::at(from.ip()))))
    }
}

impl Source for UnixListener {
    type Stream = tokio::net::UnixStream;
    type Ready = Self::Stream;
    const PLAIN: bool = true;
    fn greet(&self) -> impl FnOnce(Self::Stream) -> Greeted<Self::Ready> + Send + 'static {
        at_once
    }
    async fn take(&self) -> io::Result<(Self::Stream, Option<Peer>)> {
        let (stream, _) = self.accept().await?;
        let peer = stream.peer_cred().ok().map(|credentials| Peer::User(credentials.uid()));
        Ok((stream, peer))
    }
}

/// Serves until `stop` says so, then lets requests under way finish for a moment.
pub(crate) async fn serve<S: Source>(
    source: S,
    handler: impl Handler,
    limits: Arc<Limits>,
    mut stop: watch::Receiver<bool>,
) {
    let places = Places::new(&limits);
    let mut open = tokio::task::JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let stream = tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            stream = source.take() => stream,
        };
        let Ok((stream, peer)) = stream else {
            // Out of file descriptors, mostly: those who are here must leave before others can come.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        match places.take(peer) {
            Some(place) => {
                let (greet, handler) = (source.greet(), handler.clone());
                let (limits, stop) = (Arc::clone(&limits), stop.clone());
                open.spawn(async move {
                    // Who does not even greet in time is not worth an answer.
                    let greeted = tokio::time::timeout(limits.head_time, greet(stream)).await;
                    if let Ok(Ok(stream)) = greeted {
                        connection(stream, peer, handler, limits, stop).await;
                    }
                    drop(place);
                });
            }
            None if !S::PLAIN => {}
            None => drop(tokio::spawn(turn_away(stream))),
        }
    }
    drop(source);
    let all_done = async { while open.join_next().await.is_some() {} };
    let _in_time = tokio::time::timeout(Duration::from_secs(5), all_done).await;
}

async fn connection<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: IO,
    peer: Option<Peer>,
    handler: impl Handler,
    limits: Arc<Limits>,
    mut stop: watch::Receiver<bool>,
) {
    let rest = Arc::new(Rest::default());
    let io = TokioIo::new(Guarded::new(stream, &limits, Arc::clone(&rest)));
    let service = service_fn(move |request: Request<Incoming>| {
        // Whoever waits to be asked for the body is not: it would be sent for nothing.
        let waits = request.headers().contains_key(header::EXPECT);
        let (handler, rest) = (handler.clone(), Arc::clone(&rest));
        let request = Box::new(request.map(|body| Inflow::new(body, &rest)));
        // The server moves the future of an answer about; this way it moves a pointer. It is made where it lies only if
        // all that it starts with are pointers, too.
        in_place(move || async move {
            let mut reply = handler.handle(request, peer).await;
            if let Some(body) = rest.take()
                && (waits || !Box::pin(read_away(body, &rest)).await)
            {
                reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(reply)
        })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head.max(8192))
        .max_headers(100)
        .half_close(true)
        // In one piece, as most answers are short. Held back until the next request is read they would be lost where none is.
        .writev(false)
        .serve_connection(io, service);
    tokio::pin!(connection);
    // An error here is the client's: it left, was too slow, or spoke something else.
    tokio::select! {
        _left = connection.as_mut() => {}
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            let _left = connection.await;
        }
    }
}

/// Says that there is no place, and closes.
async fn turn_away(mut stream: impl AsyncWrite + Unpin) {
    let detail = "too many connections are open; close some, or come back later";
    let status = http::StatusCode::SERVICE_UNAVAILABLE;
    let problem =
        Problem::new(status, "HX0075", "Too many at once", detail, Next::RetryLater).after(Millis::from_secs(1));
    let body = serde_json::to_string(&problem.wire()).unwrap_or_default();
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let said = async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await
    };
    let _gone = tokio::time::timeout(Duration::from_secs(1), said).await;
}

/// Resolves once it is time to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender nobody will ever say so; the server that holds it is gone.
    drop(stop.wait_for(|stop| *stop).await);
}
