//! A server with TLS and a client CA, whose certificate is replaced.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use usher_agent::client::{Client, Error};
use usher_agent::settings::Settings;
use usher_store::Place;
use usher_wire::http::{REGISTER_PATH, RegisterRequest, RegisterResponse, Secret};

use crate::caller::SOON;
use crate::test_server::{TIMEOUT, TestServer, furnish};

/// Writes a CA, and a certificate with its key for each name.
fn certify(folder: &Path, names: &[&str]) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.crt"), issuer.pem()).unwrap();
    for name in names {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap();
        fs::write(folder.join(format!("{name}.crt")), signed.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
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
            Err(why) => assert!(begun.elapsed() < TIMEOUT, "{why:?}"),
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

/// Clients that send requests until they are told to stop, over many connections.
struct Load {
    connector: TlsConnector,
    port: u16,
    ended: AtomicBool,
    answered: AtomicU64,
}

impl Load {
    fn new(port: u16, authority: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        Self { connector, port, ended: AtomicBool::new(false), answered: AtomicU64::new(0) }
    }

    async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("127.0.0.1").map_err(io::Error::other)?;
        self.connector.connect(name, stream).await
    }

    /// One request on a connection; anything but a complete good answer is an error.
    async fn ask(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await?;
        let mut answer = Vec::new();
        // It has no body.
        while !answer.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut answer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
        }
        if !answer.starts_with(b"HTTP/1.1 204") {
            return Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned()));
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The certificate that a new connection is shown, and one request on it.
    async fn shown(&self) -> io::Result<Vec<u8>> {
        let mut stream = self.connect().await?;
        self.ask(&mut stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|it| it.first());
        Ok(shown.map(|it| it.to_vec()).unwrap_or_default())
    }

    /// Sends requests until the end: on new connections, or all on one.
    async fn run(self: Arc<Self>, keeps: bool) -> io::Result<()> {
        let mut kept = self.connect().await?;
        while !self.ended.load(Ordering::Relaxed) {
            if keeps {
                self.ask(&mut kept).await?;
            } else {
                self.shown().await?;
            }
        }
        Ok(())
    }

    /// Waits until new connections are shown this certificate; how long that took.
    async fn until_shown(&self, file: &Path) -> Duration {
        let (begun, expected) = (Instant::now(), CertificateDer::from_pem_file(file).unwrap());
        let shown = async {
            while self.shown().await.unwrap() != *expected {
                sleep(SOON).await;
            }
        };
        timeout(TIMEOUT, shown).await.unwrap();
        begun.elapsed()
    }
}

/// Moves a new file or link into the place of another.
fn replace(path: &Path, make: impl FnOnce(&Path)) {
    let new = path.with_extension("new");
    make(&new);
    fs::rename(new, path).unwrap();
}

/// Red by: a certificate that is read once, a pair that is half replaced and used, or a connection
/// that is cut for a new certificate.
// Requirement: CN-7
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_replaced_under_load_and_no_request_fails() {
    let Some(database) = usher_pgtest::empty().await else { return };
    furnish(&Place::Postgres(database.url())).await;
    let dir = Arc::new(tempfile::tempdir().unwrap());
    certify(dir.path(), &["first", "second", "third"]);
    let pair = |name: &str| ["crt", "key"].map(|it| dir.path().join(format!("{name}.{it}")));
    let mounted = |folder: &str| ["tls.crt", "tls.key"].map(|it| dir.path().join(folder).join(it));
    // As Kubernetes mounts a Secret: a link to a folder.
    for (folder, name) in [("a", "first"), ("b", "third")] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        for (from, to) in pair(name).iter().zip(&mounted(folder)) {
            fs::copy(from, to).unwrap();
        }
    }
    let link = dir.path().join("live");
    symlink("a", &link).unwrap();
    let [certificate, key] = mounted("live");
    let tls = [("certificate", &certificate), ("key", &key)];
    let settings = tls.map(|(name, path)| format!("tls.{name}={}", path.display()));
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut server = TestServer::within(&dir, Some(database.url()), &settings);
    server.start(None);
    let load = Arc::new(Load::new(server.port(), &dir.path().join("ca.crt")));
    let begun = Instant::now();
    while load.shown().await.is_err() {
        assert!(begun.elapsed() < TIMEOUT, "{}", server.said());
        sleep(SOON).await;
    }
    let first = load.shown().await.unwrap();
    let mut clients: JoinSet<_> =
        (0..12).map(|number| Arc::clone(&load).run(number % 3 == 0)).collect();
    let copied = |from: PathBuf| {
        move |to: &Path| {
            fs::copy(from, to).unwrap();
        }
    };
    let [second_certificate, second_key] = pair("second");
    replace(&key, copied(second_key));
    let refused = "failed to load the changed certificate";
    while !server.said().contains(refused) {
        assert!(begun.elapsed() < TIMEOUT, "{}", server.said());
        assert_eq!(load.shown().await.unwrap(), first, "the pair does not match");
    }
    replace(&certificate, copied(second_certificate.clone()));
    let by_file = load.until_shown(&second_certificate).await;
    replace(&link, |new| symlink("b", new).unwrap());
    let by_link = load.until_shown(&pair("third")[0]).await;
    load.ended.store(true, Ordering::Relaxed);
    while let Some(done) = clients.join_next().await {
        done.unwrap().unwrap_or_else(|why| panic!("a request failed: {why}\n{}", server.said()));
    }
    println!(
        "certificates: served {by_file:?} and {by_link:?} after their change, {} requests",
        load.answered.load(Ordering::Relaxed)
    );
    assert_eq!(server.stop().await, Some(0), "{}", server.said());
}
