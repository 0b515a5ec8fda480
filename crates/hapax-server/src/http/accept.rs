//! Takes connections, a bounded number of them, until it is told to stop.

use std::{future::Future, io, net::IpAddr, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::Millis;
use hapax_engine::in_place;
use hapax_http1::{Ahead, Crew, Incoming, Manners, Rest, Seat, grammar::Violation};
use http::Request;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener},
    sync::watch,
};

use super::{
    places::Places,
    reply::{Reply, collected},
};
use crate::{
    limits::Limits,
    problem::{Next, Problem},
};

/// Answers requests; it has no errors of its own.
pub(crate) trait Handler: Clone + Send + Sync + 'static {
    fn handle(&self, request: Box<Request<Incoming>>, peer: Option<Peer>) -> impl Future<Output = Reply> + Send;
}

/// Where connections come from.
pub(crate) trait Source: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// What requests are read from, once the two sides have greeted each other.
    type Ready: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    fn take(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<Peer>)>> + Send;
    /// Makes it a matter of the runtime that serves it from here on.
    fn settle(stream: Self::Stream, seat: &Seat) -> io::Result<Self::Stream>;
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
    fn settle(stream: Self::Stream, seat: &Seat) -> io::Result<Self::Stream> {
        seat.settle(stream)
    }
    async fn take(&self) -> io::Result<(Self::Stream, Option<Peer>)> {
        let (stream, from) = self.accept().await?;
        hapax_http1::taken(&stream);
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
    /// An administrator's are few: they stay where they were taken.
    fn settle(stream: Self::Stream, _: &Seat) -> io::Result<Self::Stream> {
        Ok(stream)
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
    crew: Crew,
    mut stop: watch::Receiver<bool>,
) {
    let places = Places::new(&limits);
    let manners = Arc::new(manners(&limits));
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
                let (manners, stop) = (Arc::clone(&manners), stop.clone());
                let seat = crew.seat();
                let runtime = seat.runtime();
                let serving = async move {
                    let Ok(stream) = S::settle(stream, &seat) else { return };
                    // Who does not even greet in time is not worth an answer.
                    let greeted = tokio::time::timeout(manners.limits.head, greet(stream)).await;
                    if let Ok(Ok(stream)) = greeted {
                        // The future of an answer is made where it lies only if all that it starts with are pointers.
                        let service = |request| {
                            let request = Box::new(request);
                            in_place(|| handler.handle(request, peer))
                        };
                        hapax_http1::serve(stream, Ahead::default(), &manners, stop, service).await;
                    }
                    drop((place, seat));
                };
                open.spawn_on(serving, &runtime);
            }
            None if !S::PLAIN => {}
            None => drop(tokio::spawn(turn_away(stream))),
        }
    }
    drop(source);
    let all_done = async { while open.join_next().await.is_some() {} };
    let _in_time = tokio::time::timeout(Duration::from_secs(5), all_done).await;
}

fn manners(limits: &Limits) -> Manners {
    let limits = hapax_http1::Limits {
        idle: limits.head_time,
        head: limits.head_time,
        body_pause: limits.body_time,
        reader: limits.write_time,
        // Whoever takes anything is given more time.
        least_read: 1,
        head_bytes: limits.head.max(8192),
        headers: 100,
        rest: Rest { parting_bytes: limits.body, ..Rest::default() },
    };
    Manners { limits, half_close: true, refuse }
}

/// A head that is not read any further.
fn refuse(violation: Violation) -> http::Response<Bytes> {
    let problem = if violation == Violation::TooLong {
        Problem::head_too_large()
    } else {
        Problem::bad_request(format!("{violation}; send the request in its plain form"))
    };
    collected(super::reply::problem(&problem)).unwrap_or_else(|streams| streams.map(|_| Bytes::new()))
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

#[cfg(test)]
mod tests {
    use tokio::{
        io::AsyncReadExt as _,
        net::TcpStream,
        runtime::{Builder, Handle, Runtime},
    };

    use super::*;

    /// Answers with the runtime that it runs on.
    #[derive(Clone)]
    struct Where;

    impl Handler for Where {
        async fn handle(&self, _: Box<Request<Incoming>>, _: Option<Peer>) -> Reply {
            let name = format!("runtime {}", Handle::current().id());
            super::super::reply::whole(http::StatusCode::OK, "text/plain", Bytes::from(name))
        }
    }

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    #[test]
    fn each_connection_is_served_by_one_of_the_crew() {
        let (home, one, two) = (runtime(), runtime(), runtime());
        let crew = Crew::new([one.handle().clone(), two.handle().clone()]);
        let answers = home.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (stopping, stop) = watch::channel(false);
            let serving = tokio::spawn(serve(listener, Where, Arc::default(), crew, stop));
            let (mut answers, mut open) = (Vec::new(), Vec::new());
            for _ in 0..4 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
                let mut answer = vec![0; 1024];
                let read = stream.read(&mut answer).await.unwrap();
                answers.push(String::from_utf8(answer[..read].to_vec()).unwrap());
                open.push(stream);
            }
            stopping.send(true).unwrap();
            serving.await.unwrap();
            answers
        });
        for (answer, by) in answers.iter().zip([&one, &two, &one, &two]) {
            assert!(answer.ends_with(&format!("runtime {}", by.handle().id())), "{answers:?}");
        }
    }
}
