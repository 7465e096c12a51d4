use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Channel, Full};
use hyper::Request;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower::service_fn;

use super::*;
use crate::body::BodyTimeout;
use crate::deadline::Deadlines;
use crate::limits::{Connections, Limits};
use crate::service::Authenticated;

const SECOND: Duration = Duration::from_secs(1);
const DEADLINES: Deadlines = Deadlines {
    header: Duration::from_secs(10),
    body: Duration::from_secs(15),
    idle: Duration::from_secs(20),
    idle_authenticated: Duration::from_secs(75),
    write: Duration::from_secs(30),
};
/// More than the stream between the peers holds.
const LARGE: usize = 512 * 1024;

type AnyBody = BoxBody<Bytes, Infallible>;

/// A path that ends with `/token` has shown one; `/stream` has, too, and never ends; `/large` is
/// large, `/slow` takes a second; any other path echoes its body.
async fn answer(request: Request<RequestBody>) -> Result<Response<AnyBody>, Infallible> {
    let path = request.uri().path().to_owned();
    let body: AnyBody = match path.as_str() {
        "/stream" => {
            let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
            tokio::spawn(async move {
                while sender.send_data(Bytes::from_static(b":\n\n")).await.is_ok() {
                    sleep(15 * SECOND).await;
                }
            });
            body.boxed()
        }
        "/slow" => {
            sleep(SECOND).await;
            Full::default().boxed()
        }
        "/large" | "/large/token" => Full::from(vec![b'x'; LARGE]).boxed(),
        _ => match request.into_body().collect().await {
            Ok(body) => Full::from(body.to_bytes()).boxed(),
            Err(error) => {
                let late = BodyTimeout::caused(&*error);
                let mut response = Response::new(Full::from(format!("{late}")).boxed());
                *response.status_mut() = hyper::StatusCode::REQUEST_TIMEOUT;
                return Ok(response);
            }
        },
    };
    let mut response = Response::new(body);
    if path.ends_with("/token") || path == "/stream" {
        response.extensions_mut().insert(Authenticated);
    }
    Ok(response)
}

/// The peer of a served connection.
struct Peer {
    stream: DuplexStream,
    accepted: Instant,
    served: JoinHandle<CloseReason>,
    stop: watch::Sender<bool>,
    handle: Arc<Handle>,
}

impl Peer {
    fn connect() -> Self {
        Self::connect_to(None)
    }

    fn connect_to(tls: Option<Arc<ServerConfig>>) -> Self {
        let limits = Limits { total: 9, unauthenticated: 9, per_peer: 9 };
        let open = Arc::new(Mutex::new(Connections::new(limits)));
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let handle = Handle::admit(&open, peer, DEADLINES).unwrap();
        let (stream, far) = duplex(1024);
        let (stop, stopped) = watch::channel(false);
        let kept = Arc::clone(&handle);
        let served =
            tokio::spawn(async move { serve(far, service_fn(answer), &kept, tls, stopped).await });
        Self { stream, accepted: Instant::now(), served, stop, handle }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends a request and reads its answer.
    async fn get(&mut self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        self.read().await
    }

    async fn read(&mut self) -> String {
        let mut bytes = vec![0; 4096];
        let count = self.stream.read(&mut bytes).await.unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    /// Sends nothing more; seconds from the accept to the end, and why it came.
    async fn end(mut self) -> (u64, CloseReason) {
        let why = (&mut self.served).await.unwrap();
        (self.accepted.elapsed().as_secs(), why)
    }
}

// Requirement: CN-1
#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_is_cut_however_slowly_it_comes() {
    let silent = Peer::connect();
    assert_eq!(silent.end().await, (10, CloseReason::Header));
    let mut slow = Peer::connect();
    slow.send("GET / HTTP/1.1\r\n").await;
    for _ in 0..9 {
        sleep(SECOND).await;
        slow.send("x: y\r\n").await;
    }
    assert_eq!(slow.end().await, (10, CloseReason::Header));
}

// Requirement: CN-1
#[tokio::test(start_paused = true)]
async fn a_later_head_is_due_from_its_first_byte() {
    let mut peer = Peer::connect();
    assert!(peer.get("/token").await.starts_with("HTTP/1.1 200"));
    sleep(30 * SECOND).await;
    peer.send("G").await;
    assert_eq!(peer.end().await, (40, CloseReason::Header));
}

// Requirement: CN-1
#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_answered_with_408_and_cut() {
    let mut peer = Peer::connect();
    peer.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\n{").await;
    for _ in 0..14 {
        sleep(SECOND).await;
        peer.send("{").await;
    }
    let answer = peer.read().await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.ends_with("true"), "{answer}");
    assert_eq!(peer.end().await, (15, CloseReason::Body));
}

// Requirement: CN-2
#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_later_if_it_has_shown_a_token() {
    let mut public = Peer::connect();
    assert!(public.get("/").await.starts_with("HTTP/1.1 200"));
    assert_eq!(public.end().await, (20, CloseReason::Idle));
    let mut known = Peer::connect();
    for _ in 0..3 {
        assert!(known.get("/token").await.starts_with("HTTP/1.1 200"));
        sleep(70 * SECOND).await;
    }
    assert_eq!(known.end().await, (2 * 70 + 75, CloseReason::Idle));
}

// Requirement: CN-3
#[tokio::test(start_paused = true)]
async fn a_stream_that_a_token_opened_lives_while_it_is_read() {
    let mut peer = Peer::connect();
    assert!(peer.get("/stream").await.starts_with("HTTP/1.1 200"));
    while peer.accepted.elapsed() < 3600 * SECOND {
        assert_ne!(peer.read().await, "", "it ended");
    }
    peer.stop.send_replace(true);
    drop(peer.stream);
    peer.served.await.unwrap();
}

// Requirement: CN-3
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_is_cut() {
    let mut peer = Peer::connect();
    peer.send("GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(peer.end().await, (30, CloseReason::Write));
    for (path, is_cut) in [("/large", true), ("/large/token", false)] {
        let mut slow = Peer::connect();
        slow.send(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        let mut bytes = vec![0; 1024];
        for _ in 0..4 {
            sleep(9 * SECOND).await;
            let _ = slow.stream.read_exact(&mut bytes).await;
        }
        assert_eq!(slow.served.is_finished(), is_cut, "{path}: it reads slowly, but it reads");
    }
}

/// A configuration with its own certificate, and a client that trusts it.
fn tls() -> (Arc<ServerConfig>, TlsConnector) {
    let names = vec!["localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), TlsConnector::from(Arc::new(client)))
}

/// Red by: a stall of the encrypted stream that is never over, although the peer has read all.
// Requirement: CN-3
#[tokio::test(start_paused = true)]
async fn a_peer_that_read_its_answer_over_tls_is_not_cut_for_it() {
    let (server, client) = tls();
    let Peer { stream, served, stop: _stop, .. } = Peer::connect_to(Some(server));
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = client.connect(name, stream).await.unwrap();
    for _ in 0..3 {
        stream.write_all(b"GET /large/token HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        stream.flush().await.unwrap();
        sleep(SECOND).await;
        let mut answer = Vec::new();
        let is_whole = |it: &[u8]| {
            let head = it.iter().position(|it| *it == b'x');
            head.is_some_and(|head| it.len() == head + LARGE)
        };
        while !is_whole(&answer) {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "it ended");
        }
        sleep(40 * SECOND).await;
    }
    assert!(!served.is_finished());
}

/// Red by: a deadline that ends with the first bytes of a handshake.
// Requirement: CN-1
#[tokio::test(start_paused = true)]
async fn a_handshake_that_never_ends_is_cut_however_slowly_it_comes() {
    let (server, _) = tls();
    let mut peer = Peer::connect_to(Some(server));
    // The head of a handshake record whose bytes come one by one.
    peer.stream.write_all(&[22, 3, 1, 1, 0, 1]).await.unwrap();
    for _ in 0..9 {
        sleep(SECOND).await;
        peer.stream.write_all(&[0]).await.unwrap();
    }
    assert_eq!(peer.end().await, (10, CloseReason::Header));
}

// Requirement: CN-4
#[tokio::test(start_paused = true)]
async fn a_stalled_body_waits_and_a_running_handler_does_not() {
    let mut peer = Peer::connect();
    assert!(peer.handle.read(Activity::waits));
    peer.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{").await;
    sleep(SECOND).await;
    assert!(peer.handle.read(Activity::waits), "for the rest of the body");
    peer.send("}").await;
    assert!(peer.read().await.ends_with("{}"));
    assert!(peer.handle.read(Activity::waits), "for the next request");
    assert!(!peer.handle.read(Activity::is_authenticated));
    peer.get("/token").await;
    assert!(peer.handle.read(Activity::is_authenticated));
}

// Requirement: CN-4
#[tokio::test(start_paused = true)]
async fn an_evicted_connection_answers_the_request_that_has_arrived() {
    let silent = Peer::connect();
    silent.handle.evict();
    assert_eq!(silent.end().await, (0, CloseReason::Evicted));
    let mut asking = Peer::connect();
    asking.send("GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
    asking.handle.evict();
    assert!(asking.read().await.starts_with("HTTP/1.1 200"));
    assert_eq!(asking.end().await, (1, CloseReason::Evicted));
}

#[tokio::test(start_paused = true)]
async fn a_stop_answers_open_requests_and_waits_for_no_others() {
    let silent = Peer::connect();
    silent.stop.send_replace(true);
    assert_eq!(silent.end().await, (0, CloseReason::Stopped));
    let mut busy = Peer::connect();
    busy.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{").await;
    sleep(SECOND).await;
    busy.stop.send_replace(true);
    sleep(SECOND).await;
    busy.send("}").await;
    assert!(busy.read().await.ends_with("{}"));
    assert_eq!(busy.end().await, (2, CloseReason::Ended));
}
