//! Which server is sent which token, and how.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use usher_agent::client::{Client, Error};
use usher_agent::settings::Settings;

use crate::server::{Server, usher};

const ALL: &str = "GET /v1/projects?limit=500";

async fn empty() -> Server {
    let server = Server::start().await;
    server.on(ALL, 200, &json!({"items": [], "next_cursor": null}));
    server
}

/// Red by: the token of a data directory that is sent to any URL.
// Requirement: HC-27
#[tokio::test]
async fn the_token_of_a_data_directory_is_sent_only_to_its_own_server() {
    let (own, foreign) = (empty().await, empty().await);
    let folder = own.folder();
    let folder = folder.to_str().unwrap();
    let variables = [("USHER_URL", foreign.url.as_str()), ("USHER_DATA_DIR", folder)];
    let left = usher("get projects", &variables).await;
    assert_eq!(left.code, Some(2), "{left:?}");
    assert!(left.complained.contains("set USHER_TOKEN"), "{left:?}");
    assert_eq!(left.complained.lines().count(), 1, "{left:?}");
    assert!(foreign.asked().is_empty(), "nothing was sent");
    let own_url = format!("{}/", own.url);
    let variables = [("USHER_URL", own_url.as_str()), ("USHER_DATA_DIR", folder)];
    assert_eq!(usher("get projects", &variables).await.code, Some(0));
    assert_eq!(own.asked()[0].bearer, "Bearer admin-canary");
}

/// Red by: the token of a killed server that is sent to the process that took its port.
// Requirement: HC-29
#[tokio::test]
async fn no_token_is_sent_to_another_process_on_the_port_of_a_killed_server() {
    let other = empty().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("admin.token"), "admin-canary\n").unwrap();
    let gone = 4_194_305;
    for pid in [std::process::id(), gone] {
        let endpoint = json!({"url": other.url, "pid": pid}).to_string();
        std::fs::write(folder.path().join("endpoint.json"), endpoint).unwrap();
        let variables = [("USHER_DATA_DIR", folder.path().to_str().unwrap())];
        let left = usher("get projects", &variables).await;
        assert_eq!(left.code, Some(5), "{left:?}");
        assert!(left.complained.contains(&format!("process {pid}, is gone")), "{left:?}");
        assert_eq!(left.complained.lines().count(), 1, "{left:?}");
    }
    assert!(other.asked().is_empty(), "nothing was sent");
}

/// Red by: a token in the clear, or a name that only looks like this computer.
// Requirement: HC-28
#[tokio::test]
async fn a_token_travels_in_the_clear_only_on_request() {
    let server = empty().await;
    let port = server.url.rsplit(':').next().unwrap();
    for host in ["0.0.0.0", "localhost.", "127.0.0.1.usher.example", "[::]"] {
        let url = format!("http://{host}:{port}");
        let variables = [("USHER_URL", url.as_str()), ("USHER_TOKEN", "mine")];
        let left = usher("get projects", &variables).await;
        assert_eq!(left.code, Some(2), "{left:?}");
        assert!(left.complained.contains("in the clear"), "{left:?}");
        assert!(left.complained.contains("--allow-http"), "{left:?}");
    }
    assert!(server.asked().is_empty(), "nothing was sent");
    let url = format!("http://0.0.0.0:{port}");
    let mut variables = vec![("USHER_URL", url.as_str()), ("USHER_TOKEN", "mine")];
    assert_eq!(usher("get projects --allow-http", &variables).await.code, Some(0));
    variables.push(("USHER_ALLOW_HTTP", "1"));
    assert_eq!(usher("get projects", &variables).await.code, Some(0));
    assert_eq!(server.asked().len(), 2);
}

/// Red by: a redirect that takes the token to another server.
// Requirement: HC-27
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let foreign = empty().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let to = format!("{}/v1/projects?limit=500", foreign.url);
    let answer = format!("HTTP/1.1 307 Moved\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let left = usher("get projects", &[("USHER_URL", &url), ("USHER_TOKEN", "mine")]).await;
    assert_eq!(left.code, Some(1), "{left:?}");
    assert!(left.complained.contains("307"), "{left:?}");
    assert!(foreign.asked().is_empty());
}

/// A server that lists nothing over TLS; its PEM certificate and its port.
async fn secure_server() -> (String, u16) {
    let names = vec!["localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let body = r#"{"items":[],"next_cursor":null}"#;
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (cert.pem(), port)
}

/// Red by: a private authority that cannot be named, or one that is ignored.
// Requirement: HC-28
#[tokio::test]
async fn a_private_certificate_authority_is_trusted_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, port) = secure_server().await;
    let (other, _) = secure_server().await;
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let url = format!("https://localhost:{port}");
    let variables = [("USHER_URL", url.as_str()), ("USHER_TOKEN", "mine")];
    let own = file("own.pem", &certificate);
    let left = usher(&format!("get projects --ca-file {own}"), &variables).await;
    assert_eq!(left.code, Some(0), "{left:?}");
    let with = [variables.as_slice(), &[("USHER_CA_FILE", own.as_str())]].concat();
    assert_eq!(usher("get projects", &with).await.code, Some(0));
    let foreign = file("other.pem", &other);
    let left = usher(&format!("get projects --ca-file {foreign}"), &variables).await;
    assert_eq!(left.code, Some(5), "{left:?}");
    let nothing = file("nothing.pem", "nothing");
    let left = usher(&format!("get projects --ca-file {nothing}"), &variables).await;
    assert_eq!(left.code, Some(2), "{left:?}");
    assert!(left.complained.contains("nothing.pem"), "{left:?}");
}

/// Red by: an agent that sends its secret to a server that proves nothing.
// Requirement: AG-9
#[tokio::test]
async fn an_agent_calls_only_a_server_with_a_trusted_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, port) = secure_server().await;
    let (other, _) = secure_server().await;
    let answer = async |name: &str, pem: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, pem).unwrap();
        let settings = Settings {
            api_url: format!("https://localhost:{port}"),
            project_id: "p".to_owned(),
            resource_id: "r".to_owned(),
            token_file: "t".into(),
            ca_file: Some(path),
            cert_file: None,
            key_file: None,
            in_flight_dir: None,
        };
        let client = Client::new(&settings).ok().unwrap();
        client.post::<_, Value>("/x", None, &json!({})).await
    };
    assert!(answer("own.pem", &certificate).await.is_ok());
    let untrusted = answer("other.pem", &other).await;
    assert!(matches!(untrusted, Err(Error::Unreachable(_))), "{untrusted:?}");
}
