//! The certificates and keys of one start: an authority, a server, and the signer of the tokens of
//! service accounts.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::failure::Failure;

/// Where they are.
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) server: PathBuf,
    pub(super) server_key: PathBuf,
    pub(super) signer: PathBuf,
    pub(super) signer_public: PathBuf,
}

/// Makes them in this folder.
pub(super) fn make(folder: &Path) -> Result<Certificates, Failure> {
    let failed = |cause: rcgen::Error| Failure::message(format!("cannot make keys: {cause}"));
    let authority_key = KeyPair::generate().map_err(failed)?;
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name.push(DnType::CommonName, "usher-real-lane");
    let certificate = authority.self_signed(&authority_key).map_err(failed)?;
    let issuer = Issuer::new(authority, authority_key);
    let names = ["127.0.0.1", "localhost"].map(str::to_owned);
    let mut server = CertificateParams::new(names).map_err(failed)?;
    server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server_key = KeyPair::generate().map_err(failed)?;
    let certified = server.signed_by(&server_key, &issuer).map_err(failed)?;
    let accounts = KeyPair::generate().map_err(failed)?;
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).map(|()| path).map_err(|cause| {
            Failure::message(format!("cannot write {name} in {}: {cause}", folder.display()))
        })
    };
    Ok(Certificates {
        authority: put("ca.crt", certificate.pem())?,
        server: put("server.crt", certified.pem())?,
        server_key: put("server.key", server_key.serialize_pem())?,
        signer: put("signer.key", accounts.serialize_pem())?,
        signer_public: put("signer.pub", accounts.public_key_pem())?,
    })
}
