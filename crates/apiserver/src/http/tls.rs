//! The certificate authority and the certificates of a server.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use usher_listen::Tls;

use crate::server::StartError;

/// A certificate authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    /// The certificate in PEM.
    pub(crate) certificate: String,
    /// The key in PEM.
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn generate() -> Result<Self, StartError> {
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params().self_signed(&key).map_err(failed)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// Creates a certificate for the local names and the address of a listener.
pub(super) fn certify(authority: &Authority, address: IpAddr) -> Result<Tls, StartError> {
    let issuer = Issuer::new(params(), KeyPair::from_pem(&authority.key).map_err(failed)?);
    let mut names = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default.svc"]
        .map(str::to_owned)
        .to_vec();
    let own = address.to_string();
    if !address.is_unspecified() && !names.contains(&own) {
        names.push(own);
    }
    let mut own = CertificateParams::new(names).map_err(failed)?;
    own.distinguished_name = named("apiserver");
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(failed)?;
    let signed = own.signed_by(&key, &issuer).map_err(failed)?;
    let chain = vec![CertificateDer::from(signed.der().to_vec())];
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Tls::from_certificate(chain, key, &[b"h2", b"http/1.1"])
        .map_err(|source| StartError::Certificate(Box::new(source)))
}

/// What every authority certifies about itself.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name = named("apiserver-ca");
    params
}

fn failed(source: rcgen::Error) -> StartError {
    StartError::Certificate(Box::new(source))
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
