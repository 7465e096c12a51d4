//! Calls to the control plane: one connection for all that follow each other, bounded in size.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use usher_wire::http::{CODE_KEY_REVOKED, EVENTS_TYPE, Problem, Secret};

use crate::settings::Settings;

/// The longest answer that is read.
const ANSWER_MAX: usize = 1024 * 1024;
/// The longest code that is believed to be one.
const CODE_MAX: usize = 64;

/// Why a call was not answered well.
#[derive(Debug, Error)]
pub enum Error {
    /// The address of the control plane is none.
    #[error("cannot use API URL \"{text}\"")]
    Url {
        /// The offending text.
        text: String,
    },
    /// There is nothing to trust a server by.
    #[error("cannot read certificates")]
    Certificates,
    /// The connection failed.
    #[error("cannot reach the control plane")]
    Unreachable(#[source] io::Error),
    /// The conversation failed.
    #[error("cannot understand the control plane")]
    Conversation,
    /// It took too long.
    #[error("cannot wait for the control plane any longer")]
    TimedOut,
    /// The answer is a refusal.
    #[error("refused with status {status} and code \"{code}\"")]
    Refused {
        /// The status.
        status: u16,
        /// The closed code, empty if there was none.
        code: String,
    },
}

impl Error {
    /// Whether it says that this node is out of the mesh.
    pub fn is_out(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == CODE_KEY_REVOKED)
    }

    /// Whether asking again cannot help.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Refused { status, .. } => matches!(status, 400 | 401 | 403 | 404 | 409 | 422),
            Self::Url { .. } | Self::Certificates => true,
            Self::Unreachable(_) | Self::Conversation | Self::TimedOut => false,
        }
    }
}

/// How the control plane is called.
pub struct Client {
    host: String,
    port: u16,
    base: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The connection of the last call, for the next one.
    kept: Mutex<Option<Sender>>,
}

/// Who sends requests over a connection.
type Sender = http1::SendRequest<Full<Bytes>>;

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Client {
    /// A client of the control plane that the settings name.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let bad = || Error::Url { text: settings.api_url.clone() };
        let uri: Uri = settings.api_url.parse().map_err(|_| bad())?;
        let host = uri.host().ok_or_else(bad)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err(bad()),
        };
        let tls = if secure {
            let name = ServerName::try_from(host.clone()).map_err(|_| bad())?;
            Some((connector(settings.ca_file.as_deref())?, name))
        } else {
            None
        };
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let base = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { host, port, base, tls, kept: Mutex::default() })
    }

    /// Posts a message and reads the answer.
    pub async fn post<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        bearer: Option<&Secret>,
        message: &Q,
    ) -> Result<A, Error> {
        let response = self.send(path, bearer, message).await?;
        let body = read(response).await?;
        serde_json::from_slice(&body).map_err(|_| Error::Conversation)
    }

    /// Posts a message whose answer says nothing.
    pub async fn tell<Q: Serialize>(
        &self,
        path: &str,
        bearer: Option<&Secret>,
        message: &Q,
    ) -> Result<(), Error> {
        let response = self.send(path, bearer, message).await?;
        // An answer that is not read to its end spoils the connection.
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
        let (_, response) = send_over(self.open().await?, request).await?;
        Ok(accepted(response).await?.into_body())
    }

    async fn send<Q: Serialize>(
        &self,
        path: &str,
        bearer: Option<&Secret>,
        message: &Q,
    ) -> Result<Response<Incoming>, Error> {
        let body = serde_json::to_vec(message).map_err(|_| Error::Conversation)?;
        let request = self.request(Method::POST, path, bearer, Bytes::from(body))?;
        accepted(self.exchange(request).await?).await
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
            .header(HOST, format!("{}:{}", self.host, self.port))
            .header(CONTENT_TYPE, "application/json");
        if let Some(bearer) = bearer {
            let value = HeaderValue::from_str(&format!("Bearer {}", bearer.expose()));
            let mut value = value.map_err(|_| Error::Conversation)?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.body(Full::new(body)).map_err(|_| Error::Conversation)
    }

    /// Asks over the connection of the last call, if that still stands.
    async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        let kept = self.kept().take();
        if let Some(mut sender) = kept
            && sender.ready().await.is_ok()
        {
            match sender.try_send_request(request).await {
                Ok(response) => {
                    *self.kept() = Some(sender);
                    return Ok(response);
                }
                // What was not sent is sent over another one.
                Err(mut why) => request = why.take_message().ok_or(Error::Conversation)?,
            }
        }
        let (sender, response) = send_over(self.open().await?, request).await?;
        *self.kept() = Some(sender);
        Ok(response)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<Sender>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self) -> Result<Sender, Error> {
        let stream = self.connect().await.map_err(Error::Unreachable)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|_| Error::Conversation)?;
        // It ends with the sender and the body.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn connect(&self) -> io::Result<Box<dyn Wire>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((connector, name)) => Ok(Box::new(connector.connect(name.clone(), stream).await?)),
        }
    }
}

async fn send_over(
    mut sender: Sender,
    request: Request<Full<Bytes>>,
) -> Result<(Sender, Response<Incoming>), Error> {
    let response = sender.send_request(request).await.map_err(|_| Error::Conversation)?;
    Ok((sender, response))
}

/// Turns a refusal into an error that holds its code and nothing else of it.
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
    Ok(body.collect().await.map_err(|_| Error::Conversation)?.to_bytes())
}

fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    let certificates: Vec<CertificateDer<'static>> = match ca_file {
        Some(path) => CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|_| Error::Certificates)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err(Error::Certificates);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| Error::Certificates)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    use super::*;

    /// A server that answers every call with an empty object; its certificate in PEM, its port.
    async fn secure_server() -> (String, u16) {
        let names = vec!["localhost".to_owned()];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
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
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            }
        });
        (cert.pem(), port)
    }

    // Requirement: AG-9
    #[tokio::test]
    async fn a_server_is_trusted_by_its_certificate_only() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, port) = secure_server().await;
        let (other, _) = secure_server().await;
        let client = |name: &str, pem: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, pem).unwrap();
            let url = settings(&format!("https://localhost:{port}"));
            Client::new(&Settings { ca_file: Some(path), ..url }).ok().unwrap()
        };
        let answer = async |client: Client| {
            client.post::<_, serde_json::Value>("/x", None, &serde_json::json!({})).await
        };
        let trusted = answer(client("own.pem", &certificate)).await;
        assert_eq!(trusted.unwrap(), serde_json::json!({}));
        let untrusted = answer(client("other.pem", &other)).await;
        assert!(matches!(untrusted, Err(Error::Unreachable(_))), "{untrusted:?}");
    }

    fn settings(api_url: &str) -> Settings {
        Settings {
            api_url: api_url.to_owned(),
            project_id: "p".to_owned(),
            resource_id: "r".to_owned(),
            token_file: "t".into(),
            ca_file: None,
            in_flight_dir: None,
        }
    }

    #[test]
    fn an_address_has_a_scheme_a_host_a_port_and_a_base() {
        let cases = [
            ("http://127.0.0.1:7420", ("127.0.0.1", 7420, "")),
            ("http://localhost/base/", ("localhost", 80, "/base")),
            ("http://[::1]:1/a/b", ("::1", 1, "/a/b")),
        ];
        for (url, expected) in cases {
            let client = Client::new(&settings(url)).ok().unwrap();
            assert_eq!((client.host.as_str(), client.port, client.base.as_str()), expected);
        }
        for url in ["", "127.0.0.1:7420", "ftp://host", "http://", "http://a b"] {
            let refused = Client::new(&settings(url)).err().unwrap();
            assert!(matches!(&refused, Error::Url { text } if text == url), "{url}");
        }
    }

    // Requirement: AG-9
    #[test]
    fn certificates_that_are_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "nothing").unwrap();
        let settings = Settings { ca_file: Some(path), ..settings("https://usher.example") };
        assert!(matches!(Client::new(&settings).err(), Some(Error::Certificates)));
    }

    // Requirement: AG-3
    #[test]
    fn only_the_code_that_says_so_means_out_of_the_mesh() {
        let refused = |status, code: &str| Error::Refused { status, code: code.to_owned() };
        assert!(refused(401, CODE_KEY_REVOKED).is_out());
        assert!(!refused(401, "").is_out());
        assert!(!refused(404, "node_not_found").is_out());
        assert!(!Error::TimedOut.is_out());
    }

    // Requirement: AG-5
    #[test]
    fn what_may_change_is_asked_again() {
        let refused = |status| Error::Refused { status, code: String::new() };
        for status in [400, 401, 403, 404, 409, 422] {
            assert!(refused(status).is_final(), "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503] {
            assert!(!refused(status).is_final(), "{status}");
        }
        assert!(!Error::TimedOut.is_final());
    }

    /// Answers so many requests on each connection, one after the other; what was asked on each.
    async fn answer(listener: tokio::net::TcpListener, counts: &[usize]) -> Vec<Vec<String>> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut heard = Vec::new();
        for count in counts {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut on_this = Vec::new();
            for _ in 0..*count {
                let mut request = Vec::new();
                while !request.ends_with(b"null") {
                    assert!(stream.read_buf(&mut request).await.unwrap() > 0, "it was closed");
                }
                let text = String::from_utf8(request).unwrap();
                on_this.push(text.split(' ').nth(1).unwrap().to_owned());
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntrue";
                stream.write_all(answer).await.unwrap();
            }
            heard.push(on_this);
        }
        heard
    }

    /// Red by: a connection for each call, a call that is lost with a connection that ended, or one
    /// that is sent twice.
    #[tokio::test]
    async fn calls_follow_each_other_on_one_connection_until_it_ends() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(answer(listener, &[2, 1]));
        let client = Client::new(&settings(&url)).ok().unwrap();
        for path in ["/a", "/b"] {
            client.post::<_, bool>(path, None, &()).await.unwrap();
        }
        // The server has closed the first one by now, or will while this is asked.
        while client.kept().as_ref().is_some_and(|it| !it.is_closed()) {
            tokio::task::yield_now().await;
        }
        client.tell("/c", None, &()).await.unwrap();
        assert_eq!(server.await.unwrap(), [vec!["/a", "/b"], vec!["/c"]]);
    }
}
