//! A server with TLS and a client CA.

use std::path::Path;
use std::time::Instant;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::time::sleep;
use usher_agent::client::{Client, Error};
use usher_agent::settings::Settings;
use usher_wire::http::{REGISTER_PATH, RegisterRequest, RegisterResponse, Secret};

use crate::caller::SOON;
use crate::test_server::{PATIENCE, TestServer};

/// Writes a CA, and a certificate with its key for each name.
fn certify(folder: &Path, names: &[&str]) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.crt"), issuer.pem()).unwrap();
    for name in names {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(folder.join(format!("{name}.crt")), signed.pem()).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// The code with which a registration is refused.
async fn refusal(settings: &Settings) -> String {
    let client = Client::new(settings).ok().unwrap();
    let request = RegisterRequest {
        project_id: "p".to_owned(),
        resource_id: "r".to_owned(),
        bootstrap_token: Secret::new("none"),
        nonce: "n".to_owned(),
        public_key: "k".to_owned(),
        agent_version: "v".to_owned(),
    };
    let begun = Instant::now();
    loop {
        match client.post::<_, RegisterResponse>(REGISTER_PATH, None, &request).await {
            Err(Error::Refused { code, .. }) => return code,
            // The server does not listen yet.
            Err(why) => assert!(begun.elapsed() < PATIENCE, "{why:?}"),
            Ok(_) => panic!("a registration without a token was accepted"),
        }
        sleep(SOON).await;
    }
}

/// Red by: a route of agents that does not ask for a certificate.
// Requirement: CN-8
#[tokio::test]
async fn an_agent_is_heard_with_a_certificate_of_the_client_ca_only() {
    let dir = tempfile::tempdir().unwrap();
    certify(dir.path(), &["server", "agent"]);
    let file = |name: &str| dir.path().join(name);
    let set = |key: &str, name: &str| format!("tls.{key}={}", file(name).display());
    let tls =
        [set("certificate", "server.crt"), set("key", "server.key"), set("client_ca", "ca.crt")];
    let settings: Vec<&str> = tls.iter().map(String::as_str).collect();
    let mut server = TestServer::new(&[&["local.agent=external"], settings.as_slice()].concat());
    server.start(None);
    let bare = Settings {
        api_url: format!("https://127.0.0.1:{}", server.port()),
        project_id: "p".to_owned(),
        resource_id: "r".to_owned(),
        token_file: "t".into(),
        ca_file: Some(file("ca.crt")),
        cert_file: None,
        key_file: None,
        in_flight_dir: None,
    };
    assert_eq!(refusal(&bare).await, "client_certificate_required", "{}", server.said());
    let (cert_file, key_file) = (Some(file("agent.crt")), Some(file("agent.key")));
    assert_eq!(refusal(&Settings { cert_file, key_file, ..bare }).await, "project_mismatch");
    assert_eq!(server.ask("GET", "/readyz", None).await, None, "no plain text");
    assert_eq!(server.stop().await, Some(0), "{}", server.said());
}
