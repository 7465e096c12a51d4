//! HTTP calls to the control plane over pooled connections, bounded in size.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use usher_wire::http::{CODE_KEY_REVOKED, EVENTS_TYPE, Problem, Secret, is_loopback};

use crate::settings::Settings;

/// The largest body that is read.
const ANSWER_MAX: usize = 1024 * 1024;
/// The longest problem code that is kept.
const CODE_MAX: usize = 64;

#[derive(Debug, Error)]
pub enum Error {
    #[error("API URL \"{text}\" is not http(s)://host[:port][/path]")]
    Url { text: String },
    /// A token would travel in the clear.
    #[error("API URL \"{text}\" needs https: its host is not a loopback address")]
    Insecure { text: String },
    #[error("found no certificates to trust")]
    Certificates,
    #[error("cert_file and key_file are not a certificate and its key in PEM, or one is missing")]
    ClientCertificate,
    #[error("failed to connect to the control plane")]
    Unreachable(#[source] legacy::Error),
    /// The connection broke, or the answer violates the protocol.
    #[error("invalid answer from the control plane")]
    Protocol,
    #[error("timed out waiting for the control plane")]
    TimedOut,
    /// `code` is empty if the answer had none.
    #[error("refused with status {status} and code \"{code}\"")]
    Refused { status: u16, code: String },
}

impl Error {
    /// Whether the control plane answered that the node is deregistered.
    pub fn is_deregistered(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == CODE_KEY_REVOKED)
    }

    /// Whether a retry cannot help.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Refused { status, .. } => matches!(status, 400 | 401 | 403 | 404 | 409 | 422),
            Self::Url { .. }
            | Self::Insecure { .. }
            | Self::Certificates
            | Self::ClientCertificate => true,
            Self::Unreachable(_) | Self::Protocol | Self::TimedOut => false,
        }
    }
}

/// A client of the control plane.
pub struct Client {
    base: String,
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Client {
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let bad = || Error::Url { text: settings.api_url.clone() };
        let uri: Uri = settings.api_url.parse().map_err(|_| bad())?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) =
            (uri.scheme_str(), uri.authority())
        else {
            return Err(bad());
        };
        if scheme == "http" && !is_loopback(authority.host()) {
            return Err(Error::Insecure { text: settings.api_url.clone() });
        }
        let mut roots = RootCertStore::empty();
        if scheme == "https" {
            roots.add_parsable_certificates(certificates(settings.ca_file.as_deref())?);
            if roots.is_empty() {
                return Err(Error::Certificates);
            }
        }
        let base = format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/'));
        let connector = connector(roots, identity(settings)?)?;
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { base, http })
    }

    pub async fn post<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        bearer: Option<&Secret>,
        message: &Q,
    ) -> Result<A, Error> {
        let response = self.send(path, bearer, message).await?;
        let body = read(response).await?;
        serde_json::from_slice(&body).map_err(|_| Error::Protocol)
    }

    /// Posts a message and drops the body of the answer.
    pub async fn post_no_content<Q: Serialize>(
        &self,
        path: &str,
        bearer: Option<&Secret>,
        message: &Q,
    ) -> Result<(), Error> {
        let response = self.send(path, bearer, message).await?;
        // A connection whose answer was not read to its end is not used again.
        read(response).await.map(|_| ())
    }

    /// Opens a stream of events.
    pub async fn listen(
        &self,
        path: &str,
        bearer: &Secret,
        last_event: Option<&str>,
    ) -> Result<Incoming, Error> {
        let mut request = self.request(Method::GET, path, Some(bearer), Bytes::new())?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(EVENTS_TYPE));
        if let Some(value) = last_event.and_then(|it| HeaderValue::from_str(it).ok()) {
            headers.insert(HeaderName::from_static("last-event-id"), value);
        }
        Ok(self.exchange(request).await?.into_body())
    }

    async fn send<Q: Serialize>(
        &self,
        path: &str,
        bearer: Option<&Secret>,
        message: &Q,
    ) -> Result<Response<Incoming>, Error> {
        let body = serde_json::to_vec(message).map_err(|_| Error::Protocol)?;
        let request = self.request(Method::POST, path, bearer, Bytes::from(body))?;
        self.exchange(request).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        bearer: Option<&Secret>,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(CONTENT_TYPE, "application/json");
        if let Some(bearer) = bearer {
            let value = HeaderValue::from_str(&format!("Bearer {}", bearer.expose()));
            let mut value = value.map_err(|_| Error::Protocol)?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.body(Full::new(body)).map_err(|_| Error::Protocol)
    }

    /// Sends a request; the pool repeats it only if none of it was sent.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        let response = self.http.request(request).await.map_err(|error| {
            if error.is_connect() { Error::Unreachable(error) } else { Error::Protocol }
        })?;
        accepted(response).await
    }
}

/// Turns a refusal into an error that keeps nothing of the body but its code.
async fn accepted(response: Response<Incoming>) -> Result<Response<Incoming>, Error> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = read(response).await.unwrap_or_default();
    let problem = serde_json::from_slice::<Problem>(&body).ok();
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let code = problem.map(|it| it.code).unwrap_or_default();
    let plain = code.len() <= CODE_MAX && code.bytes().all(inner);
    let code = if plain { code } else { String::new() };
    Err(Error::Refused { status: status.as_u16(), code })
}

async fn read(response: Response<Incoming>) -> Result<Bytes, Error> {
    let body = Limited::new(response.into_body(), ANSWER_MAX);
    Ok(body.collect().await.map_err(|_| Error::Protocol)?.to_bytes())
}

/// The certificates of a file, or else those of this computer.
pub fn certificates(ca_file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, Error> {
    let Some(path) = ca_file else { return Ok(rustls_native_certs::load_native_certs().certs) };
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    certificates.map_err(|_| Error::Certificates)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The client certificate and its key, if there are any.
fn identity(settings: &Settings) -> Result<Option<Identity>, Error> {
    let invalid = |_| Error::ClientCertificate;
    match (&settings.cert_file, &settings.key_file) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => {
            let chain = CertificateDer::pem_file_iter(chain).and_then(Iterator::collect);
            let key = PrivateKeyDer::from_pem_file(key).map_err(invalid)?;
            Ok(Some((chain.map_err(invalid)?, key)))
        }
        (Some(_), None) | (None, Some(_)) => Err(Error::ClientCertificate),
    }
}

fn connector(
    roots: RootCertStore,
    identity: Option<Identity>,
) -> Result<HttpsConnector<HttpConnector>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| Error::Certificates)?
        .with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some((chain, key)) => {
            config.with_client_auth_cert(chain, key).map_err(|_| Error::ClientCertificate)?
        }
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    Ok(HttpsConnector::from((tcp, config)))
}

#[cfg(test)]
mod tests {
    use rcgen::generate_simple_self_signed;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn settings(api_url: &str) -> Settings {
        Settings {
            api_url: api_url.to_owned(),
            project_id: "p".to_owned(),
            resource_id: "r".to_owned(),
            token_file: "t".into(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            in_flight_dir: None,
        }
    }

    #[test]
    fn an_address_has_a_scheme_a_host_a_port_and_a_base() {
        let cases = [
            ("http://127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("http://localhost/base/", "http://localhost/base"),
            ("http://[::1]:1/a/b?c", "http://[::1]:1/a/b"),
        ];
        for (url, expected) in cases {
            let client = Client::new(&settings(url)).ok().unwrap();
            assert_eq!(client.base, expected);
        }
        for url in ["", "127.0.0.1:7420", "ftp://host", "http://", "http://a b"] {
            let refused = Client::new(&settings(url)).err().unwrap();
            assert!(matches!(&refused, Error::Url { text } if text == url), "{url}");
        }
        for url in ["http://usher.example", "http://0.0.0.0:1", "http://127.0.0.1@usher.example"] {
            let refused = Client::new(&settings(url)).err().unwrap();
            assert!(matches!(&refused, Error::Insecure { text } if text == url), "{url}");
        }
    }

    // Requirement: AG-9
    #[test]
    fn a_file_without_certificates_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "nothing").unwrap();
        let settings = Settings { ca_file: Some(path), ..settings("https://usher.example") };
        assert!(matches!(Client::new(&settings).err(), Some(Error::Certificates)));
    }

    // Requirement: CN-8
    #[test]
    fn a_client_certificate_needs_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let made = generate_simple_self_signed(vec!["node".to_owned()]).unwrap();
        let (cert, key) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let given = |cert: Option<&Path>, key: Option<&Path>| {
            let (cert_file, key_file) = (cert.map(Path::to_owned), key.map(Path::to_owned));
            let settings = settings("http://127.0.0.1:1");
            Client::new(&Settings { cert_file, key_file, ..settings }).err()
        };
        assert!(given(Some(&cert), Some(&key)).is_none());
        for (cert, key) in [(Some(&cert), None), (None, Some(&key)), (Some(&key), Some(&cert))] {
            let refused = given(cert.map(|it| &**it), key.map(|it| &**it));
            assert!(matches!(refused, Some(Error::ClientCertificate)), "{refused:?}");
        }
    }

    // Requirement: AG-3
    #[test]
    fn only_key_revoked_means_deregistered() {
        let refused = |status, code: &str| Error::Refused { status, code: code.to_owned() };
        assert!(refused(401, CODE_KEY_REVOKED).is_deregistered());
        assert!(!refused(401, "").is_deregistered());
        assert!(!refused(404, "node_not_found").is_deregistered());
        assert!(!Error::TimedOut.is_deregistered());
    }

    // Requirement: AG-5
    #[test]
    fn only_final_refusals_are_not_retried() {
        let refused = |status| Error::Refused { status, code: String::new() };
        for status in [400, 401, 403, 404, 409, 422] {
            assert!(refused(status).is_final(), "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503] {
            assert!(!refused(status).is_final(), "{status}");
        }
        assert!(!Error::TimedOut.is_final());
    }

    /// Answers two requests on one connection, announces its close, and one on another; the
    /// paths of the requests on each.
    async fn answer(
        listener: TcpListener,
        closed: tokio::sync::oneshot::Sender<()>,
    ) -> Vec<Vec<String>> {
        let mut closed = Some(closed);
        let mut connections = Vec::new();
        for count in [2, 1] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut paths = Vec::new();
            for _ in 0..count {
                let mut request = Vec::new();
                while !request.ends_with(b"null") {
                    assert!(stream.read_buf(&mut request).await.unwrap() > 0, "it was closed");
                }
                let text = String::from_utf8(request).unwrap();
                paths.push(text.split(' ').nth(1).unwrap().to_owned());
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntrue";
                stream.write_all(answer).await.unwrap();
            }
            connections.push(paths);
            drop(stream);
            if let Some(closed) = closed.take() {
                closed.send(()).unwrap();
            }
        }
        connections
    }

    /// Red by: a connection for each call, a call that is lost with a closed connection, or one
    /// that is sent twice.
    #[tokio::test]
    async fn calls_share_one_connection_until_it_closes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (close, closed) = tokio::sync::oneshot::channel();
        let server = tokio::spawn(answer(listener, close));
        let client = Client::new(&settings(&url)).ok().unwrap();
        for path in ["/a", "/b"] {
            client.post::<_, bool>(path, None, &()).await.unwrap();
        }
        // The first connection was closed; the client reads that before it sends the next request.
        closed.await.unwrap();
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        client.post_no_content("/c", None, &()).await.unwrap();
        assert_eq!(server.await.unwrap(), [vec!["/a", "/b"], vec!["/c"]]);
    }
}
