//! Certificates for tests; the tests of providers use them, too.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;

use super::Files;

/// An authority and the files it signs.
pub(crate) struct TestEndpoint {
    pub(crate) folder: TempDir,
    authority: Issuer<'static, KeyPair>,
    ca: String,
}

impl TestEndpoint {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap().pem();
        let folder = tempfile::tempdir().unwrap();
        Self { folder, authority: Issuer::new(params, key), ca }
    }

    /// Writes the three files of an end under a name.
    pub(crate) fn sign(&self, name: &str, uris: &[&str]) -> Files {
        let mut params = CertificateParams::new([]).unwrap();
        let local = SanType::IpAddress("127.0.0.1".parse().unwrap());
        let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names = std::iter::once(local).chain(uris).collect();
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.authority).unwrap();
        let at = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        let files = Files { cert: at("crt"), key: at("key"), ca: at("ca") };
        write(&files.cert, &cert.pem());
        write(&files.key, &key.serialize_pem());
        write(&files.ca, &self.ca);
        files
    }
}

/// Replaces a file by a rename, as certificate rotation does.
pub(crate) fn write(path: &Path, text: &str) {
    let aside = path.with_extension("new");
    fs::write(&aside, text).unwrap();
    fs::rename(aside, path).unwrap();
}
