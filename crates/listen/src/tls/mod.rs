//! TLS, with certificates that are loaded again when their files change.
//!
//! Files are checked at a handshake, at most once per second: there is no timer and no thread.
//! Links are followed, because Kubernetes replaces a mounted Secret by moving a link.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use crate::counts::Counts;

/// How often the files are checked at most.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The PEM files of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its intermediates.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Who may issue certificates of clients; a client without one is admitted, too.
    pub client_ca: Option<PathBuf>,
}

/// Why TLS cannot be offered.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("failed to read \"{}\"", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("\"{}\" has no {what} in PEM", path.display())]
    Pem { path: PathBuf, what: &'static str },
    #[error("the certificate and its key cannot be used")]
    Certificate(#[source] rustls::Error),
    #[error("the CA of client certificates cannot be used")]
    ClientCa(#[source] VerifierBuilderError),
}

/// The TLS of a listener.
pub struct Tls {
    files: Option<TlsFiles>,
    protocols: Vec<Vec<u8>>,
    config: Arc<ServerConfig>,
    /// What the files were when they were last read.
    stamps: Vec<Stamp>,
    checked: Instant,
}

/// Identity and age of a file; `None` if it cannot be read.
type Stamp = Option<(u64, u64, u64, (i64, i64))>;

impl Tls {
    /// TLS with the certificates of these files, which may be replaced at any time.
    pub fn from_files(files: TlsFiles, protocols: &[&[u8]]) -> Result<Self, TlsError> {
        let stamps = stamps(&files);
        let config = load(&files)?;
        Ok(Self::new(Some(files), config, protocols, stamps))
    }

    /// TLS with this certificate.
    pub fn from_certificate(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        protocols: &[&[u8]],
    ) -> Result<Self, TlsError> {
        Ok(Self::new(None, config(chain, key, None)?, protocols, Vec::new()))
    }

    fn new(
        files: Option<TlsFiles>,
        config: ServerConfig,
        protocols: &[&[u8]],
        stamps: Vec<Stamp>,
    ) -> Self {
        let protocols: Vec<Vec<u8>> = protocols.iter().map(|it| it.to_vec()).collect();
        let config = offering(config, &protocols);
        Self { files, protocols, config, stamps, checked: Instant::now() }
    }

    /// What the next handshake uses: the files as they are, or as they last were usable.
    pub(crate) fn config(&mut self, counts: &Counts) -> Arc<ServerConfig> {
        if let Some(files) = &self.files
            && self.checked.elapsed() >= CHECK_INTERVAL
        {
            self.checked = Instant::now();
            // Read before the files are, so that a later change is seen as one.
            let stamps = stamps(files);
            if stamps != self.stamps {
                self.stamps = stamps;
                let loaded = load(files);
                counts.load_certificate(loaded.is_ok());
                match loaded {
                    Ok(config) => {
                        self.config = offering(config, &self.protocols);
                        tracing::info!(file = %files.certificate.display(), "certificate loaded");
                    }
                    Err(error) => tracing::warn!(
                        file = %files.certificate.display(),
                        error = %chain(&error),
                        "failed to load the changed certificate; the previous one is still used"
                    ),
                }
            }
        }
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

fn offering(mut config: ServerConfig, protocols: &[Vec<u8>]) -> Arc<ServerConfig> {
    config.alpn_protocols = protocols.to_vec();
    Arc::new(config)
}

fn stamps(files: &TlsFiles) -> Vec<Stamp> {
    let all = [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref()];
    all.into_iter().flatten().map(|it| stamp(it)).collect()
}

fn stamp(path: &Path) -> Stamp {
    let it = std::fs::metadata(path).ok()?;
    Some((it.dev(), it.ino(), it.size(), (it.mtime(), it.mtime_nsec())))
}

fn load(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let chain = certificates(&files.certificate)?;
    let missing = |_| TlsError::Pem { path: files.key.clone(), what: "private key" };
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(missing)?;
    let clients = files.client_ca.as_deref().map(certificates).transpose()?;
    config(chain, key, clients)
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    clients: Option<Vec<CertificateDer<'static>>>,
) -> Result<ServerConfig, TlsError> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Certificate)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(issuers) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(issuers);
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.allow_unauthenticated().build().map_err(TlsError::ClientCa)?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    builder.with_single_cert(chain, key).map_err(TlsError::Certificate)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.ok().filter(|it| !it.is_empty());
    all.ok_or_else(|| TlsError::Pem { path: path.to_owned(), what: "certificate" })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

/// An error with its causes.
fn chain(error: &TlsError) -> String {
    let first: &dyn std::error::Error = error;
    let all = std::iter::successors(Some(first), |it| it.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
