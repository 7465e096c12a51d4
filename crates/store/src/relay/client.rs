//! Posting to a sink: one connection, kept while it lives, bounded in time and size.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, DATE, HOST, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use usher_domain::sinks::SinkUrl;

/// The form of what is posted.
const FORM: HeaderValue = HeaderValue::from_static("application/cloudevents+json; charset=utf-8");
/// Who posts.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("usher/", env!("CARGO_PKG_VERSION")));
/// How much of an answer is read, only so that the connection can be used again.
const ANSWER_MAX: usize = 64 * 1024;

/// Why a delivery was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// There is nothing to trust a server by.
    #[error("cannot read certificates")]
    Certificates,
    /// The connection failed.
    #[error("cannot reach it: {kind}")]
    Unreachable {
        /// What kind of failure it was.
        kind: io::ErrorKind,
    },
    /// The conversation failed.
    #[error("cannot understand it")]
    Conversation,
    /// It took too long.
    #[error("cannot wait for it any longer")]
    TimedOut,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
}

/// Whom we trust to be who they say.
#[derive(Clone)]
pub(crate) struct Trust(Source);

/// The certificates of the machine are looked for when they are first needed: whoever tells nobody
/// over TLS does not need any.
#[derive(Clone)]
enum Source {
    Given(TlsConnector),
    Machine(Arc<OnceLock<Option<TlsConnector>>>),
}

impl Trust {
    /// Trust in the certificates of a file, else in those of the machine.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = ca_file else { return Ok(Self(Source::Machine(Arc::default()))) };
        let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let certificates: Vec<_> = certificates.map_err(|_| Failure::Certificates)?;
        connector(certificates).map(|it| Self(Source::Given(it)))
    }

    fn connector(&self) -> Result<TlsConnector, Failure> {
        match &self.0 {
            Source::Given(it) => Ok(it.clone()),
            Source::Machine(found) => {
                let found = found
                    .get_or_init(|| connector(rustls_native_certs::load_native_certs().certs).ok());
                found.clone().ok_or(Failure::Certificates)
            }
        }
    }
}

fn connector(certificates: Vec<CertificateDer<'static>>) -> Result<TlsConnector, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err(Failure::Certificates);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| Failure::Certificates)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// The client of one sink.
pub(crate) struct Client {
    trust: Trust,
    bound: Duration,
    /// The connection and whom it leads to.
    open: Option<(SinkUrl, SendRequest<Full<Bytes>>)>,
}

impl Client {
    pub(crate) const fn new(trust: Trust, bound: Duration) -> Self {
        Self { trust, bound, open: None }
    }

    /// Posts a body. Redirects are answers like any other.
    pub(crate) async fn post(
        &mut self,
        url: &SinkUrl,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Vec<u8>,
    ) -> Result<Answered, Failure> {
        let (bound, body) = (self.bound, Bytes::from(body));
        let exchange = self.exchange(url, &headers, &body);
        let answered = tokio::time::timeout(bound, exchange).await;
        let answered = answered.unwrap_or(Err(Failure::TimedOut));
        if answered.is_err() {
            self.open = None;
        }
        answered
    }

    async fn exchange(
        &mut self,
        url: &SinkUrl,
        headers: &[(HeaderName, HeaderValue)],
        body: &Bytes,
    ) -> Result<Answered, Failure> {
        let request = || request(url, headers, body).ok_or(Failure::Conversation);
        // The other side may close a connection that rests at any time; then a new one is tried.
        let kept = match self.open.take().filter(|(to, _)| to == url) {
            Some((_, mut sender)) => {
                let response = sender.send_request(request()?).await;
                response.ok().map(|response| (sender, response))
            }
            None => None,
        };
        let (sender, response) = if let Some(kept) = kept {
            kept
        } else {
            let mut sender = self.connect(url).await?;
            let response = sender.send_request(request()?).await;
            (sender, response.map_err(|_| Failure::Conversation)?)
        };
        let answered =
            Answered { status: response.status().as_u16(), retry_after: retry_after(&response) };
        let body = Limited::new(response.into_body(), ANSWER_MAX);
        if body.collect().await.is_ok() {
            self.open = Some((url.clone(), sender));
        }
        Ok(answered)
    }

    async fn connect(&self, url: &SinkUrl) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let unreachable = |why: io::Error| Failure::Unreachable { kind: why.kind() };
        let stream = TcpStream::connect((url.host(), url.port())).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let wire: Box<dyn Wire> = if url.is_secure() {
            let name = ServerName::try_from(url.host().to_owned());
            let name = name.map_err(|_| Failure::Conversation)?;
            let connector = self.trust.connector()?;
            Box::new(connector.connect(name, stream).await.map_err(unreachable)?)
        } else {
            Box::new(stream)
        };
        let handshake = http1::handshake(TokioIo::new(wire)).await;
        let (sender, connection) = handshake.map_err(|_| Failure::Conversation)?;
        // It ends with its sender.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }
}

fn request(
    url: &SinkUrl,
    headers: &[(HeaderName, HeaderValue)],
    body: &Bytes,
) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(url.path())
        .header(HOST, url.authority())
        .header(USER_AGENT, AGENT)
        .header(CONTENT_TYPE, FORM)
        .body(Full::new(body.clone()))
        .ok()?;
    request.headers_mut().extend(headers.iter().cloned());
    Some(request)
}

/// How long the other side asks us to wait: a number of seconds, or a date. A date is compared with
/// the one of the same answer, so that whose clock is right does not matter.
fn retry_after(response: &Response<Incoming>) -> Option<Duration> {
    let text = |name| response.headers().get(name)?.to_str().ok();
    pause(text(RETRY_AFTER)?, text(DATE))
}

fn pause(asked: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = asked.trim().parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let until = httpdate::parse_http_date(asked).ok()?;
    let now = httpdate::parse_http_date(date?).ok()?;
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: Y-5
    #[test]
    fn a_pause_is_asked_for_in_seconds_or_by_a_date() {
        let now = Some("Fri, 31 Dec 1999 23:58:59 GMT");
        assert_eq!(pause("120", None), Some(Duration::from_mins(2)));
        assert_eq!(pause("Fri, 31 Dec 1999 23:59:59 GMT", now), Some(Duration::from_mins(1)));
        assert_eq!(pause("Fri, 31 Dec 1999 23:00:00 GMT", now), Some(Duration::ZERO));
        for asked in ["", "-1", "soon", "99999999999", "Fri, 31 Dec 1999 23:59:59 GMT"] {
            assert_eq!(pause(asked, None), None, "{asked}");
        }
    }

    #[test]
    fn certificates_that_are_none_are_refused() {
        let path = std::env::temp_dir().join(format!("usher-ca-{}.pem", std::process::id()));
        std::fs::write(&path, "nothing").unwrap();
        let refused = Trust::new(Some(&path)).err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(refused, Some(Failure::Certificates));
    }
}
