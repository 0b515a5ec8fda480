//! A fresh connection.

use std::{io, sync::Arc, time::Duration};

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

use super::{
    exchange::Line,
    failure::{Failure, told},
    link::Link,
    pool::Place,
    shared::{self, Shared},
    target::Target,
    wire::Wire,
};

/// How often a shared connection is asked whether it lives, and how long it may take to say so.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The bytes of one answer's headers over HTTP/2, where only these are bounded; far more than upstreams send, as in HTTP/1.1.
const ANSWER_HEAD_BYTES: u32 = 256 * 1024;

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

    /// `streams`: how many requests one connection is to carry at once, where it can carry several.
    pub(super) async fn connect(&self, place: Place, streams: usize) -> Result<Line, Failure> {
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
        if http2 {
            let no_http = |error: hyper::Error| Failure::NotConnected(told(&error));
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .initial_stream_window_size(1 << 20)
                .initial_connection_window_size(4 << 20)
                .max_header_list_size(ANSWER_HEAD_BYTES)
                // A connection that is dead without a word is found out before many have entrusted it with a request.
                .keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE)
                .keep_alive_while_idle(true);
            let (sender, connection) = builder.handshake(TokioIo::new(wire)).await.map_err(no_http)?;
            shared::drive(connection, place);
            let unused = Failure::NotConnected("it has no stream".to_owned());
            return Shared::new(sender, streams).stream().map(Line::Shared).ok_or(unused);
        }
        Ok(Line::Own(Box::new(Link::new(wire, place))))
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
