//! The CA and the certificate of a server.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use usher_listen::Tls;

use crate::server::StartError;

/// The TLS identity of a server.
pub(super) struct Identity {
    pub(super) tls: Tls,
    /// The CA certificate in PEM.
    pub(super) authority: String,
}

/// Creates a CA and a certificate for the local names.
pub(super) fn identity() -> Result<Identity, StartError> {
    let failed = |source: rcgen::Error| StartError::Certificate(Box::new(source));
    let authority_key = KeyPair::generate().map_err(failed)?;
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name = named("apiserver-ca");
    let certificate = authority.self_signed(&authority_key).map_err(failed)?;
    let issuer = Issuer::new(authority, authority_key);
    let names = ["localhost", "127.0.0.1", "kubernetes", "kubernetes.default.svc"];
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let mut own = CertificateParams::new(names).map_err(failed)?;
    own.distinguished_name = named("apiserver");
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(failed)?;
    let signed = own.signed_by(&key, &issuer).map_err(failed)?;
    let chain = vec![CertificateDer::from(signed.der().to_vec())];
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let tls = Tls::from_certificate(chain, key, &[b"h2", b"http/1.1"])
        .map_err(|source| StartError::Certificate(Box::new(source)))?;
    Ok(Identity { tls, authority: certificate.pem() })
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
