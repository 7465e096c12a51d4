//! A listener on real sockets: who gives way, and certificates that change while requests run.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use usher_listen::{
    Authenticated, ClientCertificate, CloseReason, Counts, Deadlines, Limits, RequestBody,
    Settings, Tls, TlsFiles, serve,
};

/// The end of every wait.
const TIMEOUT: Duration = Duration::from_mins(2);
/// No deadline cuts a connection in these tests.
const LONG: Duration = Duration::from_hours(1);

async fn answer(request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let shown = request.extensions().get::<ClientCertificate>().is_some();
    let mut response = Response::new(Full::from(if shown { "shown" } else { "none" }));
    if request.headers().contains_key("authorization") {
        response.extensions_mut().insert(Authenticated);
    }
    Ok(response)
}

struct TestListener {
    address: SocketAddr,
    counts: Arc<Counts>,
    stop: watch::Sender<bool>,
}

impl TestListener {
    async fn start(limits: Limits, tls: Option<Tls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (counts, (stop, stopped)) = (Arc::<Counts>::default(), watch::channel(false));
        let deadlines = Deadlines {
            header: LONG,
            body: LONG,
            idle: LONG,
            idle_authenticated: LONG,
            write: LONG,
        };
        let settings = Settings { deadlines, limits, tls, counts: Arc::clone(&counts) };
        tokio::spawn(serve(listener, tower::service_fn(answer), settings, stopped));
        Self { address, counts, stop }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Waits until this many connections were closed for this reason.
    async fn until_closed(&self, reason: CloseReason, count: u64) {
        let closed = async {
            while self.counts.closed(reason) != count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let closed = timeout(TIMEOUT, closed).await;
        assert!(closed.is_ok(), "{reason:?}: {:?}", self.counts);
    }
}

/// One request; the body of its answer.
async fn get<I: AsyncRead + AsyncWrite + Unpin>(io: &mut I, header: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{header}\r\n");
    io.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.ends_with("shown") && !answer.ends_with("none") {
        let mut bytes = [0; 1024];
        let count = timeout(TIMEOUT, io.read(&mut bytes)).await.unwrap().unwrap();
        assert_ne!(count, 0, "closed after {answer:?}");
        answer.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    answer.rsplit("\r\n").next().unwrap().to_owned()
}

// Requirement: CN-4, CN-5
#[tokio::test]
async fn a_new_connection_is_answered_among_many_half_open_ones() {
    let limits = Limits { total: 16, unauthenticated: 8, per_peer: 6 };
    let listener = TestListener::start(limits, None).await;
    let mut known = listener.connect().await;
    assert_eq!(get(&mut known, "authorization: x\r\n").await, "none");
    let mut half_open = Vec::new();
    for _ in 0..100 {
        let mut stream = listener.connect().await;
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        half_open.push(stream);
    }
    listener.until_closed(CloseReason::Evicted, 94).await;
    assert_eq!(get(&mut listener.connect().await, "").await, "none");
    listener.until_closed(CloseReason::Evicted, 95).await;
    assert_eq!(get(&mut known, "").await, "none", "a token is never displaced");
    let mut left = Vec::new();
    assert_eq!(half_open[0].read_to_end(&mut left).await.unwrap_or_default(), 0, "closed");
    listener.stop.send_replace(true);
    for stream in &mut half_open[95..] {
        let _ = timeout(TIMEOUT, stream.read_to_end(&mut left)).await.unwrap();
    }
}

/// An authority that signs the certificates of a test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Certificate and key in PEM.
    fn sign(&self, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// A client that trusts this authority and shows this certificate.
    fn client(&self, own: Option<(String, String)>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}

fn files(folder: &Path) -> TlsFiles {
    let client_ca = Some(folder.join("ca.crt"));
    TlsFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key"), client_ca }
}

/// Replaces the pair of a server, file by file.
fn install(files: &TlsFiles, (certificate, key): (String, String)) {
    for (path, text) in [(&files.certificate, certificate), (&files.key, key)] {
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, path).unwrap();
    }
}

const MANY: Limits = Limits { total: 99, unauthenticated: 99, per_peer: 99 };

/// One request over its own connection; the certificate of the server, and the answer.
async fn call(listener: &TestListener, client: &TlsConnector) -> (Vec<u8>, String) {
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = client.connect(name, listener.connect().await).await.unwrap();
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    (shown, get(&mut stream, "").await)
}

// Requirement: CN-7
#[tokio::test]
async fn a_replaced_certificate_is_served_and_no_request_fails() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let files = files(dir.path());
    std::fs::write(files.client_ca.as_ref().unwrap(), authority.0.pem()).unwrap();
    install(&files, authority.sign(ExtendedKeyUsagePurpose::ServerAuth));
    let tls = Tls::from_files(files.clone(), &[b"http/1.1"]).unwrap();
    let listener = TestListener::start(MANY, Some(tls)).await;
    let client = authority.client(None);
    let (first, _) = call(&listener, &client).await;
    let replaced = AtomicBool::new(false);
    let requests = async {
        loop {
            let was_replaced = replaced.load(Ordering::Relaxed);
            let (shown, _) = call(&listener, &client).await;
            if shown != first {
                break was_replaced;
            }
        }
    };
    let replace = async {
        sleep(Duration::from_millis(50)).await;
        replaced.store(true, Ordering::Relaxed);
        install(&files, authority.sign(ExtendedKeyUsagePurpose::ServerAuth));
    };
    let (seen, ()) = timeout(TIMEOUT, async { tokio::join!(requests, replace) }).await.unwrap();
    assert!(seen);
    assert_eq!(listener.counts.certificates_loaded(), 1);
}

// Requirement: CN-8
#[tokio::test]
async fn only_a_certificate_of_the_client_ca_is_passed_on() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let files = files(dir.path());
    std::fs::write(files.client_ca.as_ref().unwrap(), authority.0.pem()).unwrap();
    install(&files, authority.sign(ExtendedKeyUsagePurpose::ServerAuth));
    let listener = TestListener::start(MANY, Some(Tls::from_files(files, &[]).unwrap())).await;
    assert_eq!(call(&listener, &authority.client(None)).await.1, "none");
    let own = authority.sign(ExtendedKeyUsagePurpose::ClientAuth);
    assert_eq!(call(&listener, &authority.client(Some(own))).await.1, "shown");
    let foreign = Authority::new().sign(ExtendedKeyUsagePurpose::ClientAuth);
    let client = authority.client(Some(foreign));
    let name = ServerName::try_from("localhost").unwrap();
    let Ok(mut refused) = client.connect(name, listener.connect().await).await else { return };
    let _ = refused.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let mut read = Vec::new();
    assert!(refused.read_to_end(&mut read).await.is_err() || read.is_empty());
    listener.until_closed(CloseReason::Handshake, 1).await;
}
