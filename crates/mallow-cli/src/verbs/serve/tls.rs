//! The server's side of TLS, by rustls.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use super::args::ServeArgs;
use crate::error::{Error, Result};

/// None without a certificate.
pub fn acceptor(args: &ServeArgs) -> Result<Option<TlsAcceptor>> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    if args.listen.starts_with("unix:") {
        return Err(Error::Usage(
            "A socket of this machine needs no TLS: give --tls-cert with an address, such as \
             0.0.0.0:9095."
                .into(),
        ));
    }
    let chain: Vec<CertificateDer> = CertificateDer::pem_slice_iter(&read(cert)?)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| unusable(cert, "certificate", &error))?;
    if chain.is_empty() {
        return Err(unusable(cert, "certificate", &"there is no BEGIN CERTIFICATE in it"));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|error| unusable(key, "private key", &error))?;
    // Which provider it is would otherwise depend on what other crates ask for.
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Internal(error.to_string()))?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| mismatch(cert, key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(Error::io(format!("{} cannot be read", file.display())))
}

fn unusable(file: &Path, what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Usage(format!("{} holds no {what} in PEM form: {error}.", file.display()))
}

fn mismatch(cert: &Path, key: &Path, error: &rustls::Error) -> Error {
    Error::Usage(format!(
        "{} and {} cannot be used together: {error}.",
        cert.display(),
        key.display()
    ))
}
