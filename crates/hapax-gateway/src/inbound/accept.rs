use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hapax_http1::{Crew, Manners};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;

use super::{
    connection::{self, Answer},
    limits::Limits,
    live::{Live, Stopping},
    peers::Peers,
};

/// One listening place and its rules.
#[derive(Debug)]
pub struct Inbound {
    pub listener: TcpListener,
    pub tls: Option<Arc<ServerConfig>>,
    pub limits: Limits,
    /// The runtimes that serve connections; without any, the one that takes them.
    pub crew: Crew,
}

/// What every connection of one listener shares.
pub(super) struct Shared<A> {
    pub(super) answer: A,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: Arc<Limits>,
    pub(super) manners: Manners,
    pub(super) stopping: Stopping,
    /// The runtime that takes connections.
    pub(super) home: Handle,
}

/// Takes connections until it is told to stop. What was taken goes on and is counted in `live`.
pub(crate) async fn serve<A: Answer>(inbound: Inbound, answer: A, live: Live, mut stopping: Stopping) {
    let limits = Arc::new(inbound.limits);
    let room = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let peers = Peers::default();
    let shared = Arc::new(Shared {
        answer,
        tls: inbound.tls.map(TlsAcceptor::from),
        limits: Arc::clone(&limits),
        manners: limits.manners(),
        stopping: stopping.clone(),
        home: Handle::current(),
    });
    loop {
        let taken = tokio::select! {
            biased;
            () = stopping.stopped() => return,
            taken = take(&inbound.listener, &room) => taken,
        };
        let Ok((stream, address, place)) = taken else { continue };
        let Some(peer) = peers.enter(address.ip(), limits.connections_per_peer) else { continue };
        let (shared, working) = (Arc::clone(&shared), live.working());
        let seat = inbound.crew.seat();
        seat.runtime().spawn(async move {
            if let Ok(stream) = seat.settle(stream) {
                connection::serve(stream, address, seat, &shared).await;
            }
            drop((working, place, peer));
        });
    }
}

type Taken = (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit);

/// The next connection, once there is room for it.
async fn take(listener: &TcpListener, room: &Arc<Semaphore>) -> io::Result<Taken> {
    let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    match listener.accept().await {
        Ok((stream, address)) => Ok((stream, address, place)),
        Err(error) => {
            // Out of file descriptors, mostly: a moment later some connection has ended.
            tokio::time::sleep(Duration::from_millis(20)).await;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderValue, Request, Response};
    use http_body_util::Empty;
    use hyper::client::conn::{http1, http2};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::{
        body::Out,
        inbound::{Answering, Peer, Stop},
        request_body::Inflow,
    };

    /// Answers with the runtime that it runs on.
    #[derive(Clone)]
    struct Where;

    impl Answer for Where {
        async fn answer(&self, _: Request<Inflow>, _: Peer, _: Answering) -> Response<Out> {
            Response::builder()
                .header("runtime", Handle::current().id().to_string())
                .body(Out::whole(Bytes::new()))
                .unwrap()
        }
    }

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    /// A connection is served by one of the crew. One of HTTP/2 is many requests, and would keep all of them to one thread.
    #[test]
    fn requests_of_one_connection_stay_together_but_for_http2() {
        let (home, one, two) = (runtime(), runtime(), runtime());
        let name = |runtime: &Runtime| runtime.handle().id().to_string();
        let crew = Crew::new([one.handle().clone(), two.handle().clone()]);
        let said = home.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (_stop, stopping) = Stop::new();
            let inbound = Inbound { listener, tls: None, limits: Limits::default(), crew };
            tokio::spawn(serve(inbound, Where, Live::default(), stopping));
            let request = |target| Request::get(target).body(Empty::<Bytes>::new()).unwrap();
            let said = |response: Response<_>| response.headers()["runtime"].to_str().unwrap().to_owned();
            let mut all = Vec::new();
            let mut open = Vec::new();
            for protocol in [1, 1, 2, 1, 1] {
                let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
                if protocol == 2 {
                    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
                    open.push(tokio::spawn(async move { connection.await.is_ok() }));
                    all.push(said(sender.send_request(request("http://shop.example/")).await.unwrap()));
                    // Nobody has it end.
                    std::mem::forget(sender);
                    continue;
                }
                let (mut sender, connection) = http1::handshake(io).await.unwrap();
                open.push(tokio::spawn(async move { connection.await.is_ok() }));
                for _ in 0..2 {
                    let mut request = request("/");
                    request.headers_mut().insert("host", HeaderValue::from_static("shop.example"));
                    all.push(said(sender.send_request(request).await.unwrap()));
                    sender.ready().await.unwrap();
                }
                std::mem::forget(sender);
            }
            all
        });
        let [one, two, home] = [name(&one), name(&two), name(&home)];
        // The one of HTTP/2 takes no place with the crew.
        let expected = [&one, &one, &two, &two, &home, &one, &one, &two, &two];
        assert_eq!(said, expected.map(String::clone));
    }
}
