// SPDX-License-Identifier: MIT
//! TLS by rustls: the server's side of it, and that of who pushes to a collector.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::args::ServeArgs;
use crate::error::{Error, Result};
use crate::output::Notes;

/// A certificate with its key, read again when one of the files is another.
pub struct Identity {
    cert: PathBuf,
    key: PathBuf,
    notes: Notes,
    current: Mutex<Current>,
}

struct Current {
    /// Of the files as they were last tried.
    stamps: [Stamp; 2],
    /// Of the last files that could be used.
    acceptor: TlsAcceptor,
}

/// Device, number, length, time of the last change, time of the last write; all zero for no file.
pub type Stamp = [u64; 5];

impl Identity {
    /// None without a certificate.
    pub fn of(args: &ServeArgs, notes: Notes) -> Result<Option<Identity>> {
        let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
        if args.listen.starts_with("unix:") {
            return Err(Error::Usage(
                "A socket of this machine needs no TLS: give --tls-cert with an address, such as \
                 0.0.0.0:9095."
                    .into(),
            ));
        }
        let stamps = [stamp(cert), stamp(key)];
        let current = Mutex::new(Current { stamps, acceptor: acceptor(cert, key)? });
        Ok(Some(Identity { cert: cert.clone(), key: key.clone(), notes, current }))
    }

    /// For the next connection. Of files that cannot be used, such as a new certificate whose key
    /// has not come yet, it is said once, and the old ones stay in use.
    pub fn acceptor(&self) -> TlsAcceptor {
        let stamps = [stamp(&self.cert), stamp(&self.key)];
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.stamps != stamps {
            current.stamps = stamps;
            match acceptor(&self.cert, &self.key) {
                Ok(acceptor) => {
                    current.acceptor = acceptor;
                    let name = self.cert.display();
                    self.notes.note(&format!("The certificate in {name} was read again."));
                }
                Err(error) => {
                    self.notes.note(&format!("{error} The old certificate stays in use."))
                }
            }
        }
        current.acceptor.clone()
    }
}

pub fn stamp(file: &Path) -> Stamp {
    let Ok(found) = file.metadata() else { return Stamp::default() };
    let time = |seconds: i64, rest: i64| {
        seconds.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(rest.cast_unsigned())
    };
    let changed = time(found.ctime(), found.ctime_nsec());
    [found.dev(), found.ino(), found.len(), changed, time(found.mtime(), found.mtime_nsec())]
}

fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = certificates(cert)?;
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
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Trusts who has a certificate of `ca`, or of one that the system trusts.
pub fn connector(ca: Option<&Path>, option: &str) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = ca {
        for root in certificates(file)? {
            roots.add(root).map_err(|error| unusable(file, "certificate", &error))?;
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        if roots.add_parsable_certificates(found.certs).0 == 0 {
            return Err(Error::Usage(format!(
                "This system has no certificates to trust. Install ca-certificates, or name a file \
                 with {option}-ca."
            )));
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Internal(error.to_string()))?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<CertificateDer> = CertificateDer::pem_slice_iter(&read(file)?)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| unusable(file, "certificate", &error))?;
    match found.is_empty() {
        true => Err(unusable(file, "certificate", &"there is no BEGIN CERTIFICATE in it")),
        false => Ok(found),
    }
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
