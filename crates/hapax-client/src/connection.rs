//! Connections to one daemon, kept for the next request.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

use crate::error::Error;

#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        let wrong = || Error::Address(text.to_owned());
        let (rest, tls) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false),
            (None, Some(rest)) if cfg!(feature = "tls") => (rest, true),
            (None, Some(_)) => return Err(Error::NoTls(text.to_owned())),
            (None, None) => return Err(wrong()),
        };
        let rest = rest.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
            Some(_) | None => (rest, if tls { 443 } else { 80 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains('/') {
            return Err(wrong());
        }
        Ok(Self::Tcp { host: host.to_owned(), port, tls })
    }

    pub(crate) fn host(&self) -> String {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
            Self::Unix(_) => "localhost".to_owned(),
        }
    }
}

/// Idle connections beyond this are closed.
const MOST_IDLE: usize = 64;

#[derive(Debug)]
pub(crate) struct Pool {
    address: Address,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Tls>,
}

impl Pool {
    /// `ca`: whose certificates are believed, where TLS is spoken; the system's if left out.
    pub(crate) fn new(address: Address, ca: Option<&Path>) -> Result<Self, Error> {
        #[cfg(feature = "tls")]
        let tls = match &address {
            Address::Tcp { tls: true, .. } => Some(crate::tls::Tls::new(ca)?),
            Address::Tcp { tls: false, .. } | Address::Unix(_) => None,
        };
        #[cfg(not(feature = "tls"))]
        let _no_tls = ca;
        Ok(Self {
            address,
            idle: Mutex::new(Vec::new()),
            #[cfg(feature = "tls")]
            tls,
        })
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>, most: Duration) -> Result<Response<Bytes>, Error> {
        tokio::time::timeout(most, self.exchange(request)).await.unwrap_or(Err(Error::TimedOut(most)))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, Error> {
        let mut connection = self.connection().await?;
        let response = connection.send_request(request).await.map_err(Error::Lost)?;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.map_err(Error::Lost)?.to_bytes();
        let mut idle = self.idle.lock();
        if !connection.is_closed() && idle.len() < MOST_IDLE {
            idle.push(connection);
        }
        Ok(Response::from_parts(head, bytes))
    }

    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>, Error> {
        loop {
            let kept = self.idle.lock().pop();
            match kept {
                // The daemon may have closed it meanwhile.
                Some(mut kept) => {
                    if kept.ready().await.is_ok() {
                        return Ok(kept);
                    }
                }
                None => break,
            }
        }
        match &self.address {
            Address::Tcp { host, port, tls: _ } => {
                let stream =
                    TcpStream::connect((host.as_str(), *port)).await.map_err(|error| self.unreachable(error))?;
                let _as_it_was = stream.set_nodelay(true);
                #[cfg(feature = "tls")]
                if let Some(tls) = &self.tls {
                    return begin(tls.connect(host, stream).await.map_err(|error| self.unreachable(error))?).await;
                }
                begin(stream).await
            }
            Address::Unix(path) => {
                begin(UnixStream::connect(path).await.map_err(|error| self.unreachable(error))?).await
            }
        }
    }

    fn unreachable(&self, error: std::io::Error) -> Error {
        let at = match &self.address {
            Address::Tcp { tls, .. } => format!("{}://{}", if *tls { "https" } else { "http" }, self.address.host()),
            Address::Unix(path) => path.display().to_string(),
        };
        Error::Unreachable { at, error }
    }
}

async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, Error> {
    let (connection, driver) = handshake(TokioIo::new(stream)).await.map_err(Error::Lost)?;
    tokio::spawn(async move {
        // Whoever has sent a request on it is told by its own future.
        let _told_elsewhere = driver.await;
    });
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let host = |text: &str| Address::parse(text).map(|address| address.host());
        assert_eq!(host("http://127.0.0.1:7878/").unwrap(), "127.0.0.1:7878");
        assert_eq!(host("http://[::1]:7878").unwrap(), "[::1]:7878");
        assert_eq!(host("http://hapax.internal").unwrap(), "hapax.internal:80");
        assert!(matches!(Address::parse("unix:/run/a.sock").unwrap(), Address::Unix(_)));
        if cfg!(feature = "tls") {
            assert_eq!(host("https://hapax.internal").unwrap(), "hapax.internal:443");
        } else {
            assert!(Address::parse("https://x").is_err());
        }
        for bad in ["ftp://x", "127.0.0.1:80", "http://", "http://a:b", "http://a/b:1"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }
}
