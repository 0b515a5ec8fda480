//! Whom we trust when we connect.

use std::{path::Path, sync::Arc};

use rustls::{ClientConfig, RootCertStore};

use crate::inbound::{TlsProblem, certificates};

/// TLS towards upstreams: the system's roots, or those of a file instead.
pub fn client_tls(ca: Option<&Path>) -> Result<Arc<ClientConfig>, TlsProblem> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates("root certificates", path)? {
                roots.add(certificate)?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            // A system has odd certificates now and then; what cannot be used is left out.
            let (usable, _) = roots.add_parsable_certificates(found.certs);
            if usable == 0 {
                let why = found.errors.first().map_or_else(|| "none is installed".to_owned(), ToString::to_string);
                return Err(TlsProblem::NoRoots(why));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
