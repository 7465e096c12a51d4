//! HTTP calls to an Usher server, bounded in time and size.

use std::error::Error as _;
use std::fmt::Write as _;
use std::iter::successors;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;
use tokio::time::timeout;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use usher_agent::client::certificates;
use usher_wire::http::{EVENTS_TYPE, Problem, Secret, is_loopback};

use crate::error::CliError;

/// The longest response body that is read.
const ANSWER_MAX: usize = 64 * 1024 * 1024;
/// The timeout of one call.
const CALL_MAX: Duration = Duration::from_secs(30);

/// Why a call failed.
#[derive(Debug, Error)]
pub enum Error {
    /// No server listens at the URL, or the connection failed.
    #[error("failed to connect to the server at {url}: {cause}")]
    Unreachable { url: String, cause: String },
    /// No response within `CALL_MAX`.
    #[error("the server at {url} did not respond within 30 s")]
    TimedOut { url: String },
    /// The response is not what an Usher server sends, or the connection broke within it.
    #[error("no valid response from {url}: connection lost, or not an Usher server")]
    Conversation { url: String },
    /// The server refused the request.
    #[error("refused with status {status}")]
    Refused { status: u16, problem: Box<Problem> },
}

impl Error {
    /// Whether a retry may succeed.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Conversation { .. } => true,
            Self::Refused { status, .. } => *status == 503,
        }
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> Self {
        match &error {
            Error::Refused { status, problem } => Self::refused(*status, problem),
            Error::Unreachable { .. } => {
                Self::unavailable(format!("{error}; start one with `usher up`, or set USHER_URL"))
            }
            Error::TimedOut { .. } => Self::unavailable(error.to_string()),
            Error::Conversation { .. } => Self::failed(error.to_string()),
        }
    }
}

/// What a server must prove before it is sent a token.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Whether a server that is not on this computer may be called without TLS.
    pub allow_http: bool,
    /// The certificates of the authorities to trust, in place of those of this computer.
    pub ca_file: Option<PathBuf>,
}

impl Trust {
    fn roots(&self) -> Result<RootCertStore, CliError> {
        let path = self.ca_file.as_deref();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(path).unwrap_or_default());
        if roots.is_empty() {
            return Err(CliError::usage(match path {
                Some(path) => format!("found no certificates in \"{}\"", path.display()),
                None => "found no certificates to trust: give --ca-file".to_owned(),
            }));
        }
        Ok(roots)
    }
}

/// A server and the token to call it with.
pub struct Client {
    url: String,
    base: String,
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    token: Secret,
}

impl Client {
    /// A client of the server at this URL.
    pub fn new(url: &str, token: Secret, trust: &Trust) -> Result<Self, CliError> {
        let bad = || CliError::usage(format!("server URL \"{url}\" is not http(s)://HOST[:PORT]"));
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) =
            (uri.scheme_str(), uri.authority())
        else {
            return Err(bad());
        };
        if authority.as_str().contains('@') {
            return Err(bad());
        }
        if scheme == "http" && !trust.allow_http && !is_loopback(authority.host()) {
            return Err(CliError::usage(format!(
                "server URL \"{url}\" is not https, so the token would travel in the clear: \
                 use https, or allow it with --allow-http or USHER_ALLOW_HTTP=1"
            )));
        }
        let mut roots = RootCertStore::empty();
        if scheme == "https" {
            roots = trust.roots()?;
        }
        let base = format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/'));
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector(roots)?);
        Ok(Self { url: url.to_owned(), base, http, token })
    }

    /// Reads a JSON document.
    pub async fn get(&self, path: &str) -> Result<Value, Error> {
        self.call(Method::GET, path, None, None).await
    }

    /// Reads a JSON document into a type.
    pub async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let value = self.get(path).await?;
        serde_json::from_value(value).map_err(|_| self.confused())
    }

    /// Sends a request; an empty response body is `null`.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Value, Error> {
        let mut request = self.request(method, path, body)?;
        if let Some(key) = key.and_then(|it| HeaderValue::from_str(it).ok()) {
            request.headers_mut().insert(HeaderName::from_static("idempotency-key"), key);
        }
        let called = timeout(CALL_MAX, async {
            let response = self.accepted(self.exchange(request).await?).await?;
            self.whole(response).await
        });
        let late = || Error::TimedOut { url: self.url.clone() };
        let bytes = called.await.map_err(|_| late())??;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|_| self.confused())
    }

    /// Opens a stream of events.
    pub async fn listen(&self, path: &str, last: Option<&str>) -> Result<Incoming, Error> {
        let mut request = self.request(Method::GET, path, None)?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(EVENTS_TYPE));
        if let Some(last) = last.and_then(|it| HeaderValue::from_str(it).ok()) {
            headers.insert(HeaderName::from_static("last-event-id"), last);
        }
        let late = || Error::TimedOut { url: self.url.clone() };
        let response = timeout(CALL_MAX, self.exchange(request)).await.map_err(|_| late())??;
        Ok(self.accepted(response).await?.into_body())
    }

    fn confused(&self) -> Error {
        Error::Conversation { url: self.url.clone() }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token.expose()));
        let mut bearer = bearer.map_err(|_| self.confused())?;
        bearer.set_sensitive(true);
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, bearer);
        request.body(Full::new(Bytes::from(body))).map_err(|_| self.confused())
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        self.http.request(request).await.map_err(|error| {
            if !error.is_connect() {
                return self.confused();
            }
            let cause = successors(error.source(), |it| (**it).source()).last();
            let cause = cause.map(ToString::to_string).unwrap_or_default();
            Error::Unreachable { url: self.url.clone(), cause }
        })
    }

    async fn accepted(&self, response: Response<Incoming>) -> Result<Response<Incoming>, Error> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.whole(response).await?;
        let problem = serde_json::from_slice(&body).unwrap_or_else(|_| Problem {
            kind: String::new(),
            title: String::new(),
            status: status.as_u16(),
            code: String::new(),
            detail: String::new(),
        });
        Err(Error::Refused { status: status.as_u16(), problem: Box::new(problem) })
    }

    async fn whole(&self, response: Response<Incoming>) -> Result<Bytes, Error> {
        let body = Limited::new(response.into_body(), ANSWER_MAX);
        Ok(body.collect().await.map_err(|_| self.confused())?.to_bytes())
    }
}

fn connector(roots: RootCertStore) -> Result<HttpsConnector<HttpConnector>, CliError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| CliError::failed(format!("failed to set up TLS: {why}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    Ok(HttpsConnector::from((tcp, config)))
}

/// Percent-encodes a path segment or a query value.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_a_host_and_optionally_a_port_and_a_base_path() {
        let cases = [
            ("http://127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("http://localhost/base/", "http://localhost/base"),
            ("https://[::1]/a?b", "https://[::1]/a"),
        ];
        for (url, expected) in cases {
            let client = Client::new(url, Secret::new("t"), &Trust::default()).ok().unwrap();
            assert_eq!(client.base, expected);
        }
        let clear = Trust { allow_http: true, ..Trust::default() };
        let bad = ["", "127.0.0.1:7420", "ftp://host", "http://", "http://a b", "http://a@host"];
        for url in bad {
            assert_eq!(Client::new(url, Secret::new("t"), &clear).err().unwrap().code, 2, "{url}");
        }
    }

    // Requirement: HC-28
    #[test]
    fn plain_http_to_another_computer_needs_a_flag() {
        let url = "http://usher.example:7420";
        let refused = Client::new(url, Secret::new("t"), &Trust::default()).err().unwrap();
        assert_eq!(refused.code, 2);
        assert!(refused.text.contains("in the clear"), "{}", refused.text);
        let clear = Trust { allow_http: true, ..Trust::default() };
        assert!(Client::new(url, Secret::new("t"), &clear).is_ok());
    }

    #[test]
    fn reserved_and_non_ascii_bytes_are_percent_encoded() {
        assert_eq!(encoded("web-1"), "web-1");
        assert_eq!(encoded("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
    }
}
