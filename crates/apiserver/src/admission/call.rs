//! One question to one webhook.

use std::collections::HashMap;
use std::error::Error as _;
use std::io;
use std::iter::successors;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::service::{self, Target};
use crate::core::{Core, text};
use crate::patch::go_type;
use crate::status::Refusal;

/// The largest answer that is read.
const ANSWER_MAX: usize = 3 * 1024 * 1024;
/// How many pools are kept: endpoints and authorities come and go.
const POOLS_MAX: usize = 64;
/// How long a webhook has when its configuration says nothing.
const PATIENCE: u64 = 10;

type Pool = legacy::Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>;

/// The client of all webhooks.
#[derive(Default)]
pub(crate) struct Webhooks {
    /// Pooled connections by the `caBundle` that their servers are verified with, and by the
    /// address of a service.
    pools: Mutex<HashMap<(String, Option<SocketAddr>), Pool>>,
}

/// Where a webhook is called.
struct Endpoint {
    url: String,
    /// The URL in messages.
    shown: String,
    /// The address of a service; the name in its URL is of its certificate.
    address: Option<SocketAddr>,
}

/// Resolves every name to the address of a service, if there is one.
#[derive(Clone)]
struct Resolver {
    address: Option<SocketAddr>,
    system: GaiResolver,
}

impl tower::Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        if let Some(address) = self.address {
            return Box::pin(std::future::ready(Ok(vec![address].into_iter())));
        }
        let found = self.system.call(name);
        Box::pin(async move { Ok(found.await?.collect::<Vec<_>>().into_iter()) })
    }
}

/// The URL of a webhook, or the address of its service.
fn endpoint(core: &Core, hook: &Value, seconds: u64) -> Result<Endpoint, String> {
    let service = &hook["clientConfig"]["service"];
    if service.is_null() {
        let url = text(hook, "/clientConfig/url");
        let separator = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{separator}timeout={seconds}s");
        return Ok(Endpoint { shown: url.clone(), url, address: None });
    }
    let Target { host, port, path, address } = service::resolve(core, service)?;
    Ok(Endpoint {
        // Without a port, so that the one of the address counts.
        url: format!("https://{host}/{path}?timeout={seconds}s"),
        shown: format!("https://{host}:{port}/{path}?timeout={seconds}s"),
        address: Some(address),
    })
}

/// What a webhook said.
#[derive(Default)]
pub(super) struct Said {
    pub(super) warnings: Vec<String>,
    pub(super) refusal: Option<Refusal>,
}

impl Webhooks {
    /// Asks, and follows the failure policy when no answer comes.
    pub(super) async fn ask(&self, core: &Core, hook: &Value, request: Value) -> Said {
        match self.judged(core, hook, request).await {
            Ok(said) => said,
            Err(_) if text(hook, "/failurePolicy") == "Ignore" => Said::default(),
            Err(why) => {
                let name = text(hook, "/name");
                let refusal =
                    Refusal::internal(format!("failed calling webhook \"{name}\": {why}"));
                Said { refusal: Some(refusal), ..Said::default() }
            }
        }
    }

    async fn judged(&self, core: &Core, hook: &Value, request: Value) -> Result<Said, String> {
        let uid = text(&request, "/uid").to_owned();
        let review = json!({
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": request,
        });
        let seconds = hook["timeoutSeconds"].as_u64().unwrap_or(PATIENCE);
        let endpoint = endpoint(core, hook, seconds)
            .map_err(|why| format!("failed to call webhook: {why}"))?;
        let url = endpoint.shown.clone();
        let post = self.post(&endpoint, text(hook, "/clientConfig/caBundle"), &review);
        let called = tokio::time::timeout(Duration::from_secs(seconds), post).await;
        let (status, body) = called
            .unwrap_or_else(|_| Err(format!("Post \"{url}\": context deadline exceeded")))
            .map_err(|why| format!("failed to call webhook: {why}"))?;
        if status >= 400 {
            return Err("failed to call webhook: an error on the server (\"unknown\") has \
                        prevented the request from succeeding"
                .to_owned());
        }
        let answer = parse(&body)?;
        checked(&answer, &uid)?;
        Ok(said(text(hook, "/name"), &answer["response"]))
    }

    async fn post(
        &self,
        endpoint: &Endpoint,
        ca_bundle: &str,
        review: &Value,
    ) -> Result<(u16, Bytes), String> {
        let failed = |why: String| format!("Post \"{}\": {why}", endpoint.shown);
        let uri: Uri = endpoint.url.parse().map_err(|_| failed("invalid URL".to_owned()))?;
        let pool = self.pool(ca_bundle, endpoint.address).map_err(failed)?;
        let request = Request::post(&uri)
            .header("content-type", "application/json")
            .header("accept", "application/json, */*")
            .body(Full::from(review.to_string()))
            .map_err(|error| failed(error.to_string()))?;
        let response = pool.request(request).await.map_err(|error| failed(cause(&uri, &error)))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
        let body = body.map_err(|error| failed(error.to_string()))?;
        Ok((status, body.to_bytes()))
    }

    fn pool(&self, ca_bundle: &str, address: Option<SocketAddr>) -> Result<Pool, String> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (ca_bundle.to_owned(), address);
        if let Some(pool) = pools.get(&key) {
            return Ok(pool.clone());
        }
        let pool = verified_by(ca_bundle, address)?;
        if pools.len() >= POOLS_MAX {
            pools.clear();
        }
        pools.insert(key, pool.clone());
        Ok(pool)
    }
}

fn verified_by(ca_bundle: &str, address: Option<SocketAddr>) -> Result<Pool, String> {
    let pem = STANDARD.decode(ca_bundle).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp =
        HttpConnector::new_with_resolver(Resolver { address, system: GaiResolver::new() });
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = HttpsConnector::from((tcp, config));
    connector.enforce_https();
    Ok(legacy::Client::builder(TokioExecutor::new()).build(connector))
}

/// Why a webhook was not reached, in the words of Go's client.
fn cause(uri: &Uri, error: &legacy::Error) -> String {
    let mut causes = successors(error.source(), |it| (**it).source());
    let Some(why) = causes.find_map(|it| it.downcast_ref::<io::Error>()) else {
        return causes.last().map_or_else(|| error.to_string(), ToString::to_string);
    };
    // A failed handshake is an I/O error within another.
    if why.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<io::Error>) {
        return format!("tls: {why}");
    }
    if !error.is_connect() {
        return why.to_string();
    }
    let refused = why.kind() == io::ErrorKind::ConnectionRefused;
    let why = if refused { "connection refused".to_owned() } else { why.to_string() };
    let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(443));
    format!("dial tcp {host}:{port}: connect: {why}")
}

fn parse(body: &[u8]) -> Result<Value, String> {
    let answer: Value = serde_json::from_slice(body).map_err(|error| {
        let why = crate::verbs::json::sentence(body, &error);
        format!("failed to call webhook: couldn't get version/kind; json parse error: {why}")
    })?;
    if answer.is_object() {
        return Ok(answer);
    }
    Err(format!(
        "failed to call webhook: couldn't get version/kind; json parse error: json: cannot \
         unmarshal {} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        go_type(&answer)
    ))
}

/// Whether an answer is one, and to this question.
fn checked(answer: &Value, uid: &str) -> Result<(), String> {
    const EXPECTED: &str = "admission.k8s.io/v1";
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let (version, kind) = (text(answer, "/apiVersion"), text(answer, "/kind"));
    if version != EXPECTED || kind != "AdmissionReview" {
        let shown = if version.is_empty() { "/" } else { version };
        return Err(invalid(format!(
            "expected webhook response of {EXPECTED}, Kind=AdmissionReview, got {shown}, \
             Kind={kind}"
        )));
    }
    if answer["response"].is_null() {
        return Err(invalid("webhook response was absent".to_owned()));
    }
    let answered = text(answer, "/response/uid");
    if answered != uid {
        return Err(invalid(format!("expected response.uid=\"{uid}\", got \"{answered}\"")));
    }
    Ok(())
}

fn said(name: &str, response: &Value) -> Said {
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(str::to_owned).collect();
    if response["allowed"].as_bool() == Some(true) {
        return Said { warnings, refusal: None };
    }
    Said { warnings, refusal: Some(denied(name, &response["status"])) }
}

fn denied(name: &str, status: &Value) -> Refusal {
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| *code >= 400).unwrap_or(400);
    let (message, reason) = (text(status, "/message"), text(status, "/reason"));
    let denied = format!("admission webhook \"{name}\" denied the request");
    let message = match (message, reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let mut refusal = Refusal::new(code, "", message);
    let mut answer = refusal.to_status();
    for key in ["reason", "details"] {
        if let Some(value) = status.get(key).filter(|value| !value.is_null()) {
            answer[key] = value.clone();
        }
    }
    refusal.status = Some(Box::new(answer));
    refusal
}
