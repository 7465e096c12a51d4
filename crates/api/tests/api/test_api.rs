//! A router over the fake ports, and requests to it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, header};
use http_body_util::BodyExt as _;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tower::ServiceExt as _;
use usher_api::{AppState, Metrics};

use crate::fake::{Fake, TOKENS};
use crate::secrets::log;

/// Ports and the router over them.
pub(crate) struct TestApi {
    pub(crate) fake: Fake,
    pub(crate) router: Router,
}

/// The response.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|why| panic!("{why}: {}", self.text))
    }

    /// Status and code of a refusal.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let problem = self.json();
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(problem["status"], self.status);
        (self.status, problem["code"].as_str().unwrap().to_owned())
    }
}

/// A refusal as tests write it.
pub(crate) fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

impl TestApi {
    pub(crate) fn new() -> Self {
        log();
        let fake = Fake::new();
        let mut registry = Registry::with_prefix("usher");
        let metrics = Metrics::register(&mut registry);
        let state = AppState::new(fake.ports(), Arc::new(registry), metrics);
        Self { fake, router: state.router() }
    }

    /// Sends a request as it is.
    pub(crate) async fn open(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request and reads the answer to its end.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answered {
        let response = self.open(request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answered { status: parts.status.as_u16(), headers: parts.headers, text }
    }

    /// Sends a request with the token of that name.
    pub(crate) async fn ask(
        &self,
        who: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Answered {
        self.send(request(who, method, path, body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        self.ask("admin", "GET", path, None).await
    }
}

/// A request with the token of that name; an unknown name sends none.
pub(crate) fn request(who: &str, method: &str, path: &str, body: Option<Value>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some((_, text)) = TOKENS.iter().find(|(name, _)| *name == who) {
        request = request.header(header::AUTHORIZATION, format!("Bearer {text}"));
    }
    match body {
        Some(body) => request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .unwrap(),
        None => request.body(Body::empty()).unwrap(),
    }
}
