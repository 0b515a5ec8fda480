use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hapax_http1::Manners;
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
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
}

/// What every connection of one listener shares.
pub(super) struct Shared<A> {
    pub(super) answer: A,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: Arc<Limits>,
    pub(super) manners: Manners,
    pub(super) stopping: Stopping,
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
        tokio::spawn(async move {
            connection::serve(stream, address, &shared).await;
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
