use std::{io, sync::Arc};

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use hapax_http1::Seat;

use super::accept::{Greeted, Peer, Source};

/// Connections that speak TLS.
pub(crate) struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Tls {
    pub(crate) fn new(listener: TcpListener, config: &ServerConfig) -> Self {
        let mut config = config.clone();
        // It may be made for others too; here HTTP/1.1 is spoken.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }
}

impl Source for Tls {
    type Stream = TcpStream;
    type Ready = TlsStream<TcpStream>;
    const PLAIN: bool = false;

    async fn take(&self) -> io::Result<(Self::Stream, Option<Peer>)> {
        self.listener.take().await
    }

    fn settle(stream: Self::Stream, seat: &Seat) -> io::Result<Self::Stream> {
        seat.settle(stream)
    }

    fn greet(&self) -> impl FnOnce(Self::Stream) -> Greeted<Self::Ready> + Send + 'static {
        let acceptor = self.acceptor.clone();
        move |stream| Box::pin(async move { acceptor.accept(stream).await })
    }
}
