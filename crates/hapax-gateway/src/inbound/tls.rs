//! Our certificate, from files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// Where certificate and key lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Why no TLS can be spoken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsProblem {
    #[error("{what} {path} cannot be read: {why}; give a PEM file that this user may read [HX0051]")]
    File { what: &'static str, path: PathBuf, why: String },
    #[error("certificate and key do not make a TLS server or client: {0} [HX0051]")]
    Unfit(#[from] rustls::Error),
    #[error("no root certificate of this system can be read: {0}; name a file with `ca` [HX0051]")]
    NoRoots(String),
}

impl TlsFiles {
    /// What the server speaks with: HTTP/2 first, HTTP/1.1 else.
    pub fn server(&self) -> Result<Arc<ServerConfig>, TlsProblem> {
        let chain = certificates("certificate", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|why| unread("key", &self.key, &why))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// All certificates of a PEM file; none is an error.
pub(crate) fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|why| unread(what, path, &why))?.collect();
    let found = read.map_err(|why| unread(what, path, &why))?;
    if found.is_empty() {
        let why = "it holds no certificate".to_owned();
        return Err(TlsProblem::File { what, path: path.to_owned(), why });
    }
    Ok(found)
}

fn unread(what: &'static str, path: &Path, why: &impl ToString) -> TlsProblem {
    TlsProblem::File { what, path: path.to_owned(), why: why.to_string() }
}
