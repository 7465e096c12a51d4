//! The server behind a socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use usher_apiserver::ApiServer;

/// The content of a kubeconfig.
struct Kubeconfig {
    address: String,
    authority: Vec<u8>,
    token: String,
}

async fn served() -> (ApiServer, Kubeconfig) {
    let server = ApiServer::builder().build().await.expect("a server");
    assert_eq!(server.kubeconfig(), None);
    server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a listener");
    let parsed: Value =
        serde_json::from_str(&server.kubeconfig().expect("a kubeconfig")).expect("JSON");
    let cluster = &parsed["clusters"][0]["cluster"];
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let config = Kubeconfig {
        address: text(&cluster["server"]).replace("https://", ""),
        authority: STANDARD.decode(text(&cluster["certificate-authority-data"])).expect("PEM"),
        token: text(&parsed["users"][0]["user"]["token"]),
    };
    (server, config)
}

async fn connect(config: &Kubeconfig, protocol: &[u8]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&config.authority) {
        roots.add(certificate.expect("a certificate")).expect("an authority");
    }
    let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(&config.address).await.expect("a connection");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    TlsConnector::from(Arc::new(tls)).connect(name, stream).await.expect("TLS")
}

fn request(config: &Kubeconfig, token: Option<&str>) -> Request<Empty<Bytes>> {
    let url = format!("https://{}/api/v1/namespaces/default", config.address);
    let mut builder = Request::get(url);
    if let Some(token) = token {
        builder = builder.header("authorization", format!("Bearer {token}"));
    }
    builder.body(Empty::new()).expect("a request")
}

// Requirement: AK-9
#[tokio::test]
async fn only_a_valid_token_is_authenticated() {
    let (server, config) = served().await;
    let stream = TokioIo::new(connect(&config, b"http/1.1").await);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(stream).await.expect("HTTP/1.1");
    let driver = tokio::spawn(connection);
    let mut codes = Vec::new();
    for token in [None, Some("wrong"), Some(config.token.as_str())] {
        let mut request = request(&config, token);
        *request.uri_mut() = "/api/v1/namespaces/default".parse().expect("a path");
        let response = sender.send_request(request).await.expect("a response");
        codes.push(response.status().as_u16());
    }
    assert_eq!(codes, [403, 401, 200]);
    driver.abort();
    server.shutdown().await;
}

// Requirement: AK-9
#[tokio::test]
async fn http_2_is_served_on_the_same_listener() {
    let (server, config) = served().await;
    let stream = TokioIo::new(connect(&config, b"h2").await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
    let driver = tokio::spawn(connection);
    let request = request(&config, Some(&config.token));
    let response = sender.send_request(request).await.expect("a response");
    assert_eq!((response.status().as_u16(), response.version()), (200, hyper::Version::HTTP_2));
    driver.abort();
    server.shutdown().await;
}

/// Longer than any timeout; the clock is paused.
const LONG: Duration = Duration::from_hours(1);

// Requirement: AK-16
#[tokio::test(start_paused = true)]
async fn a_client_without_a_tls_handshake_is_disconnected() {
    let (_server, config) = served().await;
    let mut stream = TcpStream::connect(&config.address).await.expect("a connection");
    let ended = tokio::time::timeout(LONG, stream.read(&mut [0; 1])).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
}

// Requirement: AK-16
#[tokio::test]
async fn a_client_that_never_ends_its_request_is_disconnected() {
    let (_server, config) = served().await;
    let token = &config.token;
    let endless = format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-length: 9\r\n\r\n{{"
    );
    for begun in ["", "GET /readyz HTTP/1.1\r\nhost:", &endless] {
        let mut stream = connect(&config, b"http/1.1").await;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("asked");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            assert!(stream.read_buf(&mut answer).await.expect("a response") > 0);
        }
        stream.write_all(begun.as_bytes()).await.expect("begun");
        stream.flush().await.expect("begun");
        tokio::time::pause();
        let ended = tokio::time::timeout(LONG, stream.read(&mut [0; 512])).await;
        tokio::time::resume();
        assert!(ended.is_ok(), "the server still waits for {begun:?}");
    }
}

// Requirement: AK-64
#[tokio::test]
async fn kept_credentials_outlive_a_restart_and_a_rebuild() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("credentials");
    let start = async || {
        let server = ApiServer::builder().credentials(&path).build().await.expect("a server");
        let address = server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("bound");
        (server, address)
    };
    let (server, first) = start().await;
    let before = server.kubeconfig().expect("a kubeconfig");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&path).expect("the file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    server.shutdown().await;
    let (server, second) = start().await;
    let after = server.kubeconfig().expect("a kubeconfig");
    assert_eq!(after, before.replace(&first.to_string(), &second.to_string()));
    server.rebuild(ApiServer::builder()).await.expect("a rebuilt cluster");
    let parsed: Value = serde_json::from_str(&before).expect("JSON");
    let text = |pointer: &str| parsed.pointer(pointer).and_then(Value::as_str).expect("a text");
    let authority = text("/clusters/0/cluster/certificate-authority-data");
    let config = Kubeconfig {
        address: second.to_string(),
        authority: STANDARD.decode(authority).expect("PEM"),
        token: text("/users/0/user/token").to_owned(),
    };
    let stream = TokioIo::new(connect(&config, b"h2").await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request(&config, Some(&config.token))).await;
    assert_eq!(response.expect("a response").status(), 200);
    driver.abort();
}

// Requirement: AK-64
#[tokio::test]
async fn credentials_that_cannot_be_read_are_refused_without_quoting_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("credentials");
    let cases = [
        ("", "it is not a file of credentials at line 1 column 0"),
        ("{\"format\": 9}", "its format is 9, and this server reads 1"),
        ("{\"format\": 1, \"token\": 5}", "it is not a file of credentials at line 1 column 24"),
    ];
    for (text, wanted) in cases {
        std::fs::write(&path, text).expect("a file");
        let built = ApiServer::builder().credentials(&path).build().await;
        let error = built.err().expect("a refusal");
        assert_eq!(
            error.to_string(),
            format!("failed to use the credentials in {}", path.display())
        );
        let source = std::error::Error::source(&error).expect("a cause").to_string();
        assert_eq!(source, wanted);
    }
}
