//! A fresh connection.

use std::{io, sync::Arc};

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

use super::{
    counted::{Counted, Written},
    exchange::Taken,
    failure::{Failure, told},
    link::Link,
    pool::Place,
    target::Target,
    wire::Wire,
};

/// What is spoken with an upstream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// What TLS agrees on; without TLS HTTP/1.1.
    #[default]
    Auto,
    Http1,
    /// Without TLS by prior knowledge.
    Http2,
}

pub(super) struct Connector {
    pub(super) target: Target,
    pub(super) protocol: Protocol,
    tls: Option<TlsConnector>,
}

impl Connector {
    pub(super) fn new(target: Target, protocol: Protocol, tls: Option<&Arc<ClientConfig>>) -> Self {
        let tls = tls.map(|config| {
            let mut config = ClientConfig::clone(config);
            config.alpn_protocols = match protocol {
                Protocol::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
                Protocol::Http1 => vec![b"http/1.1".to_vec()],
                Protocol::Http2 => vec![b"h2".to_vec()],
            };
            TlsConnector::from(Arc::new(config))
        });
        Self { target, protocol, tls }
    }

    pub(super) async fn connect(&self, place: Place) -> Result<Taken, Failure> {
        let not_connected = |error: io::Error| Failure::NotConnected(told(&error));
        let stream = self.tcp().await.map_err(not_connected)?;
        let _ = stream.set_nodelay(true);
        let (wire, http2) = if self.target.tls {
            let stream = self.handshake(stream).await.map_err(not_connected)?;
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            (Wire::Tls(Box::new(stream)), http2)
        } else {
            (Wire::Plain(stream), self.protocol == Protocol::Http2)
        };
        let written = Written::default();
        let io = TokioIo::new(Counted::new(wire, written.clone()));
        let no_http = |error: hyper::Error| Failure::NotConnected(told(&error));
        if http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .initial_stream_window_size(1 << 20)
                .initial_connection_window_size(4 << 20);
            let (sender, connection) = builder.handshake(io).await.map_err(no_http)?;
            // It carries the requests of many, so nobody's request can drive it.
            tokio::spawn(async move {
                let _ = connection.await;
                drop(place);
            });
            return Ok(Taken::Shared(sender));
        }
        let (sender, connection) = http1::Builder::new().handshake(io).await.map_err(no_http)?;
        Ok(Taken::Own(Box::new(Link::new(sender, connection, written, place))))
    }

    async fn tcp(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in lookup_host((&*self.target.host, self.target.port)).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn handshake(&self, stream: TcpStream) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let Some(tls) = &self.tls else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "TLS is not set up"));
        };
        let name = ServerName::try_from(self.target.host.to_string()).map_err(io::Error::other)?;
        tls.connect(name, stream).await
    }
}
