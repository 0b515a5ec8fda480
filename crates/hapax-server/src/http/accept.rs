//! Takes connections, a bounded number of them, until it is told to stop.

use std::{convert::Infallible, future::Future, io, pin::Pin, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener},
    sync::{Semaphore, watch},
};

use super::{guarded::Guarded, reply::Reply};
use crate::limits::Limits;

/// Answers requests; it has no errors of its own.
pub(crate) trait Handler: Clone + Send + Sync + 'static {
    fn handle(&self, request: Request<Incoming>) -> impl Future<Output = Reply> + Send;
}

/// Where connections come from.
pub(crate) trait Source: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// What requests are read from, once the two sides have greeted each other.
    type Ready: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    fn take(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
    /// Greets; in the connection's own task, so that nobody waits for a slow one.
    fn greet(&self) -> impl FnOnce(Self::Stream) -> Greeted<Self::Ready> + Send + 'static;
    /// Whether somebody without a place can be told so in plain words.
    const PLAIN: bool;
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
    async fn take(&self) -> io::Result<Self::Stream> {
        let (stream, _) = self.accept().await?;
        // Small answers must not wait for more to come.
        let _as_it_was = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl Source for UnixListener {
    type Stream = tokio::net::UnixStream;
    type Ready = Self::Stream;
    const PLAIN: bool = true;
    fn greet(&self) -> impl FnOnce(Self::Stream) -> Greeted<Self::Ready> + Send + 'static {
        at_once
    }
    async fn take(&self) -> io::Result<Self::Stream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// Serves until `stop` says so, then lets requests under way finish for a moment.
pub(crate) async fn serve<S: Source>(
    source: S,
    handler: impl Handler,
    limits: Arc<Limits>,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut open = tokio::task::JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let stream = tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            stream = source.take() => stream,
        };
        let Ok(stream) = stream else {
            // Out of file descriptors, mostly: those who are here must leave before others can come.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let (greet, handler) = (source.greet(), handler.clone());
                let (limits, stop) = (Arc::clone(&limits), stop.clone());
                open.spawn(async move {
                    // Who does not even greet in time is not worth an answer.
                    let greeted = tokio::time::timeout(limits.head_time, greet(stream)).await;
                    if let Ok(Ok(stream)) = greeted {
                        connection(stream, handler, limits, stop).await;
                    }
                    drop(place);
                });
            }
            Err(_) if !S::PLAIN => {}
            Err(_) => drop(tokio::spawn(turn_away(stream))),
        }
    }
    drop(source);
    let all_done = async { while open.join_next().await.is_some() {} };
    let _in_time = tokio::time::timeout(Duration::from_secs(5), all_done).await;
}

async fn connection<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: IO,
    handler: impl Handler,
    limits: Arc<Limits>,
    mut stop: watch::Receiver<bool>,
) {
    let service = service_fn(move |request| {
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handler.handle(request).await) }
    });
    let io = TokioIo::new(Guarded::new(stream, limits.write_time));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head.max(8192))
        .max_headers(100)
        .half_close(true)
        .pipeline_flush(true)
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
    const BODY: &str = r#"{"type":"https://github.com/hapax-rs/hapax/blob/main/docs/errors/HX0075.md","title":"Too many at once","status":503,"code":"HX0075","detail":"too many connections are open; close some, or come back later","next_action":"retry_later","retry_after_ms":1000}"#;
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{BODY}",
        BODY.len()
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
