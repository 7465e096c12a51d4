//! Posting to sinks over pooled connections, bounded in time and size.

use std::error::Error as _;
use std::io;
use std::iter::successors;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, DATE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use thiserror::Error;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use usher_domain::sinks::SinkUrl;

/// The form of what is posted.
const FORM: HeaderValue = HeaderValue::from_static("application/cloudevents+json; charset=utf-8");
/// The user agent.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("usher/", env!("CARGO_PKG_VERSION")));
/// How much of an answer is read.
const ANSWER_MAX: usize = 64 * 1024;

/// Why a delivery was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// There are no certificates to verify a server with.
    #[error("cannot read certificates")]
    Certificates,
    /// The connection failed.
    #[error("cannot reach it: {kind}")]
    Unreachable {
        /// What kind of failure it was.
        kind: io::ErrorKind,
    },
    /// The HTTP exchange failed.
    #[error("cannot understand it")]
    Conversation,
    /// It took too long.
    #[error("cannot wait for it any longer")]
    TimedOut,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
}

type Pool = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The client of all sinks.
pub(crate) struct Client {
    plain: Pool,
    /// The machine's certificates are read for the first sink with TLS; `None` if there are none.
    secure: OnceLock<Option<Pool>>,
    bound: Duration,
}

impl Client {
    /// A client that trusts the certificates of a file, else those of the machine.
    pub(crate) fn new(ca_file: Option<&Path>, bound: Duration) -> Result<Self, Failure> {
        let secure = match ca_file {
            Some(path) => {
                let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
                let certificates = certificates.map_err(|_| Failure::Certificates)?;
                OnceLock::from(Some(trusting(certificates)?))
            }
            None => OnceLock::new(),
        };
        Ok(Self { plain: pool(RootCertStore::empty())?, secure, bound })
    }

    /// Posts a body. Redirects are answers like any other.
    pub(crate) async fn post(
        &self,
        url: &SinkUrl,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Vec<u8>,
    ) -> Result<Answered, Failure> {
        let mut request = Request::post(url.as_str())
            .header(USER_AGENT, AGENT)
            .header(CONTENT_TYPE, FORM)
            .body(Full::from(body))
            .map_err(|_| Failure::Conversation)?;
        request.headers_mut().extend(headers);
        let exchange = exchange(self.pool(url)?, request);
        tokio::time::timeout(self.bound, exchange).await.unwrap_or(Err(Failure::TimedOut))
    }

    fn pool(&self, url: &SinkUrl) -> Result<&Pool, Failure> {
        if !url.is_secure() {
            return Ok(&self.plain);
        }
        let machine = || trusting(rustls_native_certs::load_native_certs().certs).ok();
        self.secure.get_or_init(machine).as_ref().ok_or(Failure::Certificates)
    }
}

async fn exchange(pool: &Pool, request: Request<Full<Bytes>>) -> Result<Answered, Failure> {
    let response = pool.request(request).await.map_err(|error| failure(&error))?;
    let answered =
        Answered { status: response.status().as_u16(), retry_after: retry_after(&response) };
    // Read only so that the connection can be used again.
    let _ = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
    Ok(answered)
}

fn failure(error: &legacy::Error) -> Failure {
    if !error.is_connect() {
        return Failure::Conversation;
    }
    let cause = successors(error.source(), |it| (**it).source()).find_map(|it| it.downcast_ref());
    Failure::Unreachable { kind: cause.map_or(io::ErrorKind::Other, io::Error::kind) }
}

fn trusting(certificates: Vec<CertificateDer<'static>>) -> Result<Pool, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err(Failure::Certificates);
    }
    pool(roots)
}

fn pool(roots: RootCertStore) -> Result<Pool, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| Failure::Certificates)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let connector = HttpsConnector::from((tcp, config));
    Ok(legacy::Client::builder(TokioExecutor::new()).build(connector))
}

/// `Retry-After` of the sink: a number of seconds, or a date. A date is compared with
/// the one of the same answer, so that the two clocks need not agree.
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
    fn retry_after_is_read_as_seconds_or_as_a_date() {
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
        let refused = Client::new(Some(&path), Duration::ZERO).err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(refused, Some(Failure::Certificates));
    }
}
