//! The router: every route with its right, and the path of a request through it.
//!
//! ```text
//!   request ─▶ id ─▶ authorize ─▶ route ─▶ port
//!                       └─ refused ─▶ problem ◀─┘
//! ```
//!
//! **Invariants**
//! - Every route declares its right; there is no other way to register one.
//! - Rights are checked before a body is read.
//! - A panic in a route fails one request, not the process.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, header};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use prometheus_client::registry::Registry;
use tracing::Instrument as _;
use usher_domain::object::id::PeerId;
use usher_domain::object::manifest::SecretText;
use usher_domain::operators::{Reach, Role, TokenHash};
use usher_listen::{Authenticated, ClientCertificate};
use uuid::Uuid;

use crate::call::{self, Admitted, Call};
use crate::metrics::Metrics;
use crate::ports::{Answer, Failure, Ports};
use crate::problem;
use crate::refusal::Refusal;
use crate::route::{Handled, Right, Route};
use crate::{openapi, routes};

/// Request and response header.
pub const REQUEST_ID: &str = "x-request-id";
/// The longest request id that is taken from a caller.
const REQUEST_ID_MAX: usize = 64;
/// The longest bearer token that is hashed.
const BEARER_MAX: usize = 512;

/// What every route can reach; cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Shared>);

pub struct Shared {
    pub(crate) ports: Ports,
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Metrics,
    pub(crate) document: Arc<str>,
    agent_certificates: bool,
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl AppState {
    /// `metrics` are registered in `registry` already.
    pub fn new(ports: Ports, registry: Arc<Registry>, metrics: Metrics) -> Self {
        let document = openapi::text().into();
        Self(Arc::new(Shared { ports, registry, metrics, document, agent_certificates: false }))
    }

    /// Requires a client certificate on the routes of agents.
    #[must_use]
    pub fn with_agent_certificates(self) -> Self {
        let Shared { ports, registry, metrics, document, .. } = &*self;
        let (ports, registry) = (ports.clone(), Arc::clone(registry));
        let (metrics, document) = (metrics.clone(), Arc::clone(document));
        Self(Arc::new(Shared { ports, registry, metrics, document, agent_certificates: true }))
    }

    pub fn router(self) -> Router {
        let mut router = Router::new();
        for route in routes::all() {
            let Some(filter) = filter(&route.method) else { continue };
            let (path, route) = (route.path, Arc::new(route));
            let answer = move |State(state): State<Self>, params: Params, request: Request| {
                let route = Arc::clone(&route);
                async move { state.dispatch(&route, params, request).await }
            };
            router = router.route(path, on(filter, answer));
        }
        router
            .fallback(|State(state): State<Self>, request: Request| async move {
                state.refuse("unknown", &request, Refusal::RouteNotFound)
            })
            .method_not_allowed_fallback(|State(state): State<Self>, request: Request| async move {
                state.refuse("unknown", &request, Refusal::MethodNotAllowed)
            })
            .with_state(self)
    }

    async fn dispatch(&self, route: &Route, params: Params, request: Request) -> Response<Body> {
        let began = Instant::now();
        let id = request_id(request.headers());
        let span = tracing::info_span!(
            "request", id = %id, method = %route.method, route = route.path
        );
        let mut admitted = None;
        let answered = self.answer(route, params, request, &mut admitted);
        let answered = answered.instrument(span.clone()).await;
        let mut response = answered.unwrap_or_else(|failure| {
            let _entered = span.enter();
            log_failure(&failure);
            problem::answer(&failure)
        });
        if let Some(Admitted::Caller(_) | Admitted::Node(_)) = admitted {
            response.extensions_mut().insert(Authenticated);
        }
        self.metrics.count(route.path, &route.method, response.status().as_u16(), began.elapsed());
        with_request_id(response, &id)
    }

    async fn answer(
        &self,
        route: &Route,
        params: Params,
        request: Request,
        admitted: &mut Option<Admitted>,
    ) -> Answer<Response<Body>> {
        let params = path_params(params)?;
        let has_certificate = request.extensions().get::<ClientCertificate>().is_some();
        if route.by_agents && self.agent_certificates && !has_certificate {
            return Err(Refusal::CertificateRequired.into());
        }
        let by = self.authorize(route.right, &params, request.headers()).await?;
        *admitted = Some(by.clone());
        let (parts, body) = request.into_parts();
        let body = if route.takes.is_some() { call::read(body).await? } else { Bytes::new() };
        let call = Call {
            state: self.clone(),
            admitted: by,
            params,
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers,
            body,
        };
        catch_panic(|| (route.serve)(call)).await
    }

    /// Whether the caller has the right.
    async fn authorize(
        &self,
        right: Right,
        params: &[(String, String)],
        headers: &HeaderMap,
    ) -> Answer<Admitted> {
        let (needed, everywhere) = match right {
            Right::Public => return Ok(Admitted::Public),
            Right::Node => return self.authorize_node(params, headers).await,
            Right::Project(role) => (role, false),
            Right::Installation(role) => (role, true),
        };
        let bearer = bearer(headers).ok_or(Refusal::Unauthenticated)?;
        let caller = self.ports.operators.admit(TokenHash::of(&bearer)).await?;
        let caller = caller.ok_or(Refusal::Unauthenticated)?;
        let role = caller.grant.role();
        if role < needed {
            return Err(forbidden(role, needed.as_str()));
        }
        if everywhere && caller.grant.reach() != Reach::Installation {
            return Err(forbidden(role, "a token for the whole installation"));
        }
        Ok(Admitted::Caller(caller))
    }

    async fn authorize_node(
        &self,
        params: &[(String, String)],
        headers: &HeaderMap,
    ) -> Answer<Admitted> {
        let bearer = bearer(headers).ok_or(Refusal::Unauthenticated)?;
        let id = params.iter().find(|(key, _)| key == "id").map_or("", |(_, value)| value);
        // A malformed id is an unknown node.
        let node: PeerId = id.parse().map_err(|_| Refusal::KeyRevoked)?;
        self.ports.agents.admit(node, &bearer).await?;
        Ok(Admitted::Node(node))
    }

    fn refuse(&self, path: &'static str, request: &Request, why: Refusal) -> Response<Body> {
        let id = request_id(request.headers());
        let response = problem::answer(&why.into());
        let took = std::time::Duration::ZERO;
        self.metrics.count(path, &Method::GET, response.status().as_u16(), took);
        with_request_id(response, &id)
    }
}

type Params = Result<RawPathParams, RawPathParamsRejection>;

fn path_params(params: Params) -> Answer<Vec<(String, String)>> {
    let params = params.map_err(|_| Refusal::PathInvalid)?;
    Ok(params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

fn forbidden(role: Role, needed: &'static str) -> Failure {
    Refusal::Forbidden { role: role.as_str(), needed }.into()
}

fn filter(method: &Method) -> Option<MethodFilter> {
    MethodFilter::try_from(method.clone()).ok()
}

/// The bearer token, if there is exactly one authorization header.
fn bearer(headers: &HeaderMap) -> Option<SecretText> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
    let sound = scheme.eq_ignore_ascii_case("bearer") && (1..=BEARER_MAX).contains(&text.len());
    sound.then(|| SecretText::new(text))
}

/// The request id of the caller if it is valid, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|it| it.to_str().ok());
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let sound = |it: &&str| (1..=REQUEST_ID_MAX).contains(&it.len()) && it.bytes().all(inner);
    given.filter(sound).map_or_else(|| Uuid::new_v4().to_string(), str::to_owned)
}

fn with_request_id(mut response: Response<Body>, id: &str) -> Response<Body> {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Logs what the caller does not see.
fn log_failure(failure: &Failure) {
    match failure {
        Failure::Refused(refused) if crate::codes::status(refused.code).is_none() => {
            tracing::error!(code = refused.code, "refusal code without a status");
        }
        Failure::Refused(refused) => tracing::debug!(code = refused.code, "request refused"),
        Failure::Unavailable { what } => tracing::warn!(what, "dependency unavailable"),
        Failure::Broken { what } => tracing::error!(what, "request failed: internal error"),
    }
}

/// Runs a route; a panic becomes the failure of this request.
async fn catch_panic(serve: impl FnOnce() -> Handled) -> Answer<Response<Body>> {
    let broken = || Failure::Broken { what: "a route panicked".to_owned() };
    let begun = catch_unwind(AssertUnwindSafe(serve));
    let mut running: Pin<_> = begun.map_err(|_| broken())?;
    std::future::poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(Err(broken())))
    })
    .await
}
