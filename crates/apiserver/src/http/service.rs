//! Handles a request: authentication, injected fault, verb.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, USER_AGENT};
use hyper::{Request, Response};
use serde_json::json;
use usher_listen::{Authenticated, BodyTimeout};

use super::body::AnswerBody;
use super::query::Query;
use super::route::{self, Place, Route};
use super::{Answer, Call};
use crate::auth::{self, User};
use crate::core::{Backend, Core};
use crate::counters::RequestKey;
use crate::faults::{Fault, RequestKind};
use crate::status::Refusal;
use crate::{discovery, health, metrics, openapi, verbs};

/// The maximum size of a request body.
const BODY_MAX: usize = 3 * 1024 * 1024;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The server as a tower service, for listeners and in-process clients.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) backend: Arc<Backend>,
    /// The user of requests without credentials.
    pub(crate) user: User,
}

impl<B> tower::Service<Request<B>> for Service
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Error>,
{
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (answer, is_known) = service.answer(request).await;
            let mut response = answer.into_response();
            if is_known {
                response.extensions_mut().insert(Authenticated);
            }
            Ok(response)
        })
    }
}

impl Service {
    /// The answer, and whether the user is known.
    async fn answer<B>(self, request: Request<B>) -> (Answer, bool)
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Error>,
    {
        let started = Instant::now();
        let core = self.backend.core();
        let path = request.uri().path().to_owned();
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let route = route::parse(&path);
        let place = route.place();
        let verb = auth::verb(request.method(), place, &query);
        let (user, is_known, answer) = match read(&core, &self.user, request, query).await {
            Ok(mut call) => {
                let answer = serve(&core, &mut call, &route, verb).await;
                let is_known = !call.user.is_anonymous();
                (call.user.name, is_known, answer)
            }
            Err(refusal) => (String::new(), false, Err(refusal)),
        };
        let answer = answer.unwrap_or_else(Answer::from);
        let resource = place.filter(|place| is_served(&core, place)).map(qualified);
        let resource = resource.unwrap_or_default();
        let key = RequestKey { verb: verb.to_owned(), resource, code: answer.code };
        if let Some(audit) = &core.audit {
            audit(&line((&user, &path, place), &key, started));
        }
        core.counters.count(key);
        (answer, is_known)
    }
}

/// Whether a path names a served resource.
fn is_served(core: &Core, place: &Place) -> bool {
    core.registry.kinds().find(&place.group, &place.version, &place.plural).is_some()
}

/// The audit line of a request; an unauthenticated user has no name.
fn line(
    (user, path, place): (&str, &str, Option<&Place>),
    key: &RequestKey,
    started: Instant,
) -> String {
    json!({
        "user": user,
        "verb": key.verb,
        "resource": key.resource,
        "namespace": place.map_or("", |place| &place.namespace),
        "name": place.map_or("", |place| &place.name),
        "path": path,
        "code": key.code,
        "micros": u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
    })
    .to_string()
}

fn qualified(place: &Place) -> String {
    if place.group.is_empty() {
        return place.plural.clone();
    }
    format!("{}.{}", place.plural, place.group)
}

async fn serve(
    core: &Arc<Core>,
    call: &mut Call,
    route: &Route,
    verb: &str,
) -> Result<Answer, Refusal> {
    auth::authorize(core, &call.user, route, (&call.method, &call.path, &call.query))?;
    match route {
        Route::Health { endpoint, check } => health::answer(core, (endpoint, check), &call.query),
        Route::Metrics => Ok(metrics::answer(core)),
        Route::Version => Ok(Answer::json(200, &version())),
        Route::Groups { legacy } => {
            Ok(discovery::groups(&core.registry.kinds(), &call.accept, *legacy))
        }
        Route::Group(group) => discovery::group(&core.registry.kinds(), group),
        Route::GroupVersion(group, version) => {
            discovery::version(&core.registry.kinds(), group, version)
        }
        Route::OpenApiV2 => Ok(openapi::v2::document(&core.registry.kinds(), &call.accept)),
        Route::OpenApiIndex => Ok(openapi::index(&core.registry.kinds())),
        Route::OpenApi(path) => openapi::document(&core.registry.kinds(), path),
        Route::Unknown => Err(Refusal::no_such_page()),
        Route::Resource(place) => faulty(core, call, place, verb).await,
    }
}

/// Serves a resource request under its injected fault.
async fn faulty(
    core: &Arc<Core>,
    call: &mut Call,
    place: &Place,
    verb: &str,
) -> Result<Answer, Refusal> {
    let fault = core.faults.for_request(|| RequestKind {
        user: call.user.name.clone(),
        verb: verb.to_owned(),
        resource: qualified(place),
        subresource: place.sub.clone(),
        namespace: place.namespace.clone(),
        name: place.name.clone(),
    });
    call.fault.clone_from(&fault);
    fault.apply(verbs::dispatch(core, call, place), &core.ending).await
}

fn version() -> serde_json::Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.4",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

async fn read<B>(
    core: &Core,
    unnamed: &User,
    request: Request<B>,
    query: Query,
) -> Result<Call, Refusal>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Error>,
{
    let (head, body) = request.into_parts();
    let header = |name| text(&head.headers, name);
    let authorization = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let mut user = auth::authenticate(core, authorization)?;
    if authorization.is_none() {
        user = unnamed.clone();
    }
    let user = auth::impersonated(core, user.authenticated(), &head.headers)?;
    let content_type = header(CONTENT_TYPE);
    let content_type = content_type.split(';').next().unwrap_or_default().trim().to_lowercase();
    Ok(Call {
        method: head.method,
        path: head.uri.path().to_owned(),
        query,
        accept: header(ACCEPT),
        content_type,
        user_agent: header(USER_AGENT),
        body: whole(body).await?,
        user,
        fault: Fault::None,
    })
}

async fn whole<B>(body: B) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Error>,
{
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::too_large(BODY_MAX)),
        Err(error) if BodyTimeout::caused(&*error) => {
            let why = "request did not complete within the allotted timeout";
            Err(Refusal::new(504, "Timeout", format!("Timeout: {why}")))
        }
        Err(_) => Err(Refusal::bad_request("cannot read the body")),
    }
}

fn text(headers: &HeaderMap, name: hyper::header::HeaderName) -> String {
    let all: Vec<&str> =
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    all.join(",")
}
