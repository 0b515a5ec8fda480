//! TLS by rustls: the system's roots decide whom to believe, and the name in the certificate has to be the one in the URL.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Config,
    config::SslMode,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_rustls::{TlsConnector, client};

use crate::error::OpenError;

/// How sessions are made: with TLS where the URL asks for it.
#[derive(Clone, Debug)]
pub(crate) struct Tls(Option<Arc<ClientConfig>>);

/// `verify-full` is what `require` means here, so the driver need not know it.
pub(crate) fn spoken_plainly(url: &str) -> String {
    url.replace("sslmode=verify-full", "sslmode=require")
}

impl Tls {
    /// Without a word about it there is none: TLS that nobody verifies only looks safe.
    pub(crate) fn for_config(config: &mut Config) -> Result<Self, OpenError> {
        if config.get_ssl_mode() != SslMode::Require {
            config.ssl_mode(SslMode::Disable);
            return Ok(Self(None));
        }
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        // A system has odd certificates now and then; what cannot be used is left out.
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        if usable == 0 {
            let reason = "sslmode asks for TLS, and this system has no root certificates; install ca-certificates, or name \
                          a file in SSL_CERT_FILE";
            return Err(OpenError::Url { reason: reason.into() });
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let built = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let built = built.map_err(|error| OpenError::Url { reason: error.to_string() })?;
        Ok(Self(Some(Arc::new(built.with_root_certificates(roots).with_no_client_auth()))))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Wrapped<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        let Some(config) = &self.0 else { return Ok(Handshake(None)) };
        let host = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Handshake(Some((TlsConnector::from(Arc::clone(config)), host))))
    }
}

/// One handshake to come.
pub(crate) struct Handshake(Option<(TlsConnector, ServerName<'static>)>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Wrapped<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Wrapped<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let Some((connector, host)) = self.0 else { return Err(io::Error::other("TLS was not asked for")) };
            Ok(Wrapped(Box::new(connector.connect(host, stream).await?)))
        })
    }
}

/// A session inside TLS.
pub(crate) struct Wrapped<S>(Box<client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Wrapped<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Wrapped<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wrapped<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
