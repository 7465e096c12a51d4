//! Certificates from files, reloaded when the files change.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig, crypto};

const PROTOCOL: &[u8] = b"h2";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate chain.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// The authorities that the peer is verified with.
    pub ca: PathBuf,
}

/// TLS configuration that follows its files.
pub struct Keyring {
    files: Files,
    held: Mutex<Held>,
}

#[derive(Debug, Error)]
pub enum Error {
    #[error("TLS needs all of certificate, key and authority, or none")]
    Partial,
    #[error("failed to read \"{}\"", path.display())]
    Disk {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("found no {what} in \"{}\"", path.display())]
    Empty { what: &'static str, path: PathBuf },
    /// Certificate and key do not match, or are malformed.
    #[error("invalid certificate or key in \"{}\"", path.display())]
    Unusable {
        path: PathBuf,
        #[source]
        source: rustls::Error,
    },
    #[error("invalid authorities in \"{}\"", path.display())]
    Authorities {
        path: PathBuf,
        #[source]
        source: VerifierBuilderError,
    },
}

/// Both configurations, and the files they were read from.
#[derive(Clone)]
struct Held {
    seen: Seen,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// Device, inode, length and modification time of each file.
type Seen = [Option<(u64, u64, u64, i64, i64)>; 3];

impl Files {
    /// All three or none; anything else is an error.
    pub fn of(
        cert: Option<PathBuf>,
        key: Option<PathBuf>,
        ca: Option<PathBuf>,
    ) -> Result<Option<Self>, Error> {
        match (cert, key, ca) {
            (Some(cert), Some(key), Some(ca)) => Ok(Some(Self { cert, key, ca })),
            (None, None, None) => Ok(None),
            (Some(_) | None, Some(_) | None, Some(_) | None) => Err(Error::Partial),
        }
    }

    fn read_files(&self) -> Seen {
        [&self.cert, &self.key, &self.ca].map(|path| fs::metadata(path).ok().as_ref().map(stamp))
    }

    fn read(&self) -> Result<Held, Error> {
        let seen = self.read_files();
        let chain = certificates(&self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|_| Error::Empty { what: "key", path: self.key.clone() })?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(&self.ca)?);
        let roots = Arc::new(roots);
        let unusable = |source| Error::Unusable { path: self.cert.clone(), source };
        let provider = Arc::new(crypto::ring::default_provider());
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(unusable)?;
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|source| Error::Authorities { path: self.ca.clone(), source })?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Held { seen, client: Arc::new(client), server: Arc::new(server) })
    }
}

impl Keyring {
    pub fn open(files: Files) -> Result<Self, Error> {
        let held = Mutex::new(files.read()?);
        Ok(Self { files, held })
    }

    pub(super) fn client(&self) -> Arc<ClientConfig> {
        self.current().client
    }

    pub(super) fn server(&self) -> Arc<ServerConfig> {
        self.current().server
    }

    /// Reloads the files if they changed. While they are being replaced they may not match; the
    /// last valid configuration is used until they do.
    fn current(&self) -> Held {
        let seen = self.files.read_files();
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if held.seen == seen {
            return held;
        }
        match self.files.read() {
            Ok(fresh) => {
                let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
                *held = fresh.clone();
                fresh
            }
            Err(why) => {
                tracing::warn!(%why, "changed certificates are invalid; the previous ones stay");
                held
            }
        }
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyring").field("files", &self.files).finish_non_exhaustive()
    }
}

fn stamp(file: &Metadata) -> (u64, u64, u64, i64, i64) {
    (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let none = || Error::Empty { what: "certificate", path: path.to_owned() };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    found.ok().filter(|it| !it.is_empty()).ok_or_else(none)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Disk { path: path.to_owned(), source })
}
