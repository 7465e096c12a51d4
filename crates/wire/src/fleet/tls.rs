//! Certificates from files, read again when the files change.

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

/// The three files of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate of this end, and those between it and its authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who may vouch for the other end.
    pub ca: PathBuf,
}

/// What an end shows and whom it believes; as fresh as its files whenever it is asked.
pub struct Keyring {
    files: Files,
    held: Mutex<Held>,
}

/// Why there is no keyring.
#[derive(Debug, Error)]
pub enum Error {
    /// Some files were named and others were not.
    #[error("cannot secure the connection: name all of certificate, key and authority, or none")]
    Partial,
    /// A file cannot be read.
    #[error("cannot read \"{}\"", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// How.
        #[source]
        source: io::Error,
    },
    /// A file holds nothing of what it should hold.
    #[error("cannot find a {what} in \"{}\"", path.display())]
    Empty {
        /// What was looked for.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not belong together, or are none.
    #[error("cannot use the certificate in \"{}\"", path.display())]
    Unusable {
        /// The certificate's file.
        path: PathBuf,
        /// How.
        #[source]
        source: rustls::Error,
    },
    /// Nobody in there can vouch for the other end.
    #[error("cannot use the authorities in \"{}\"", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// How.
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

/// What the files looked like: device, inode, length and time of each.
type Seen = [Option<(u64, u64, u64, i64, i64)>; 3];

impl Files {
    /// All three, or none; some are an error.
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

    fn look(&self) -> Seen {
        [&self.cert, &self.key, &self.ca].map(|path| fs::metadata(path).ok().as_ref().map(stamp))
    }

    fn read(&self) -> Result<Held, Error> {
        let seen = self.look();
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
    /// Reads the files.
    pub fn open(files: Files) -> Result<Self, Error> {
        let held = Mutex::new(files.read()?);
        Ok(Self { files, held })
    }

    /// What a client shows and believes now.
    pub(super) fn client(&self) -> Arc<ClientConfig> {
        self.current().client
    }

    /// What a server shows and believes now.
    pub(super) fn server(&self) -> Arc<ServerConfig> {
        self.current().server
    }

    /// Reads the files again if they changed. Files that are being exchanged do not fit together;
    /// what was read before holds until they do.
    fn current(&self) -> Held {
        let seen = self.files.look();
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
                tracing::warn!(%why, "certificates changed and cannot be used; the former hold");
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
