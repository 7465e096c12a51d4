//! One authorized request: path, query, headers and body, parsed and checked.

use axum::body::Body;
use axum::http::{HeaderMap, Response, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId};
use usher_domain::object::idempotency;
use usher_domain::object::offender::shortened;
use usher_domain::operators::Reach;
use usher_domain::projects::Project;
use usher_kernel::Timestamp;
use usher_listen::BodyTimeout;

use crate::ports::{Answer, Failure, Ports};
use crate::problem;
use crate::refusal::{Refusal, Thing};
use crate::router::AppState;
use crate::views::{Caller, KeyUse, Page, Paging, Ref};
use usher_domain::broker::refusal::Refusal as Broker;
use usher_wire::operator::List;

/// The largest request body.
pub const BODY_MAX: usize = 1024 * 1024;
/// The largest page size.
pub const LIMIT_MAX: u32 = 500;
/// The default page size.
pub const LIMIT: u32 = 100;
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The longest parser message that is returned, in characters.
const MESSAGE_MAX: usize = 240;

/// A request that passed authorization.
pub(crate) struct Call {
    pub(crate) state: AppState,
    pub(crate) admitted: Admitted,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// By which right a request was authorized.
#[derive(Clone, Debug)]
pub(crate) enum Admitted {
    Public,
    Caller(Caller),
    Node(PeerId),
}

impl Call {
    pub(crate) fn ports(&self) -> &Ports {
        &self.state.ports
    }

    /// The operator who calls; public routes have none.
    pub(crate) fn caller(&self) -> Answer<&Caller> {
        match &self.admitted {
            Admitted::Caller(caller) => Ok(caller),
            Admitted::Public | Admitted::Node(_) => Err(Refusal::Unauthenticated.into()),
        }
    }

    /// The node that calls.
    pub(crate) fn node(&self) -> Answer<PeerId> {
        match &self.admitted {
            Admitted::Node(node) => Ok(*node),
            Admitted::Public | Admitted::Caller(_) => Err(Refusal::Unauthenticated.into()),
        }
    }

    /// A path parameter.
    pub(crate) fn param(&self, name: &str) -> Answer<&str> {
        let found = self.params.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .ok_or_else(|| Failure::Broken { what: format!("the path has no \"{name}\"") })
    }

    /// The query; unknown parameters are refused.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Answer<T> {
        let uri = format!("/?{}", self.query).parse::<axum::http::Uri>();
        let invalid = |why: &str| Failure::from(Refusal::QueryInvalid { why: redacted(why) });
        let uri = uri.map_err(|_| invalid("it is malformed"))?;
        let read = axum::extract::Query::<T>::try_from_uri(&uri);
        let read = read.map_err(|why| {
            let source = std::error::Error::source(&why).map(ToString::to_string);
            invalid(&source.unwrap_or_else(|| "it is malformed".to_owned()))
        })?;
        Ok(read.0)
    }

    /// The JSON body.
    pub(crate) fn body<T: DeserializeOwned>(&self) -> Answer<T> {
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let kind = kind.and_then(|it| it.split(';').next()).map(str::trim);
        if !kind.is_some_and(|it| it.eq_ignore_ascii_case("application/json")) {
            return Err(Refusal::ContentTypeUnsupported.into());
        }
        // serde also reads a struct from a list, which the OpenAPI document does not allow.
        if self.body.trim_ascii_start().first() == Some(&b'[') {
            let why = "it is a list, not an object".to_owned();
            return Err(Refusal::BodyInvalid { why }.into());
        }
        let read = serde_json::from_slice(&self.body);
        read.map_err(|why| Refusal::BodyInvalid { why: redacted(&why.to_string()) }.into())
    }

    /// The idempotency key, with the digest of the request.
    pub(crate) fn key(&self, request: &impl Serialize) -> Answer<Option<KeyUse>> {
        let mut values = self.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        if values.next().is_some() {
            return Err(idempotency::Refusal::Invalid(shortened(&text)).into());
        }
        let key: idempotency::Key = text.parse().map_err(Failure::from)?;
        let request = serde_json::to_vec(request);
        let request = request.map_err(|why| Failure::Broken { what: why.to_string() })?;
        Ok(Some(KeyUse { key, digest: idempotency::Digest::of(&request) }))
    }

    /// The project of a path or a body, if the caller's reach covers it.
    pub(crate) async fn project(&self, text: &str) -> Answer<Project> {
        let missing =
            || Failure::from(Refusal::NotFound { thing: Thing::Project, what: shortened(text) });
        let project = reference(text).ok_or_else(missing)?;
        let project = self.ports().projects.get(&project).await?;
        if self.caller()?.grant.reach().covers(project.id) { Ok(project) } else { Err(missing()) }
    }

    /// The resource of the path, if the caller's reach covers it; otherwise it is not found.
    pub(crate) async fn resource(&self) -> Answer<ResourceId> {
        let text = self.param("id")?;
        let missing =
            || Failure::from(Broker::ProvisionedResourceNotFound { what: shortened(text) });
        let id: ResourceId = text.parse().map_err(|_| missing())?;
        match self.caller()?.grant.reach() {
            Reach::Installation => Ok(id),
            Reach::Project(own) => {
                let view = self.ports().resources.get(id).await?;
                if view.resource.fields().project == own { Ok(id) } else { Err(missing()) }
            }
        }
    }

    /// The project to filter a list by: the requested one, within the caller's reach.
    pub(crate) async fn project_filter(
        &self,
        requested: Option<&str>,
    ) -> Answer<Option<ProjectId>> {
        match (requested, self.caller()?.grant.reach()) {
            (Some(text), _) => Ok(Some(self.project(text).await?.id)),
            (None, Reach::Project(own)) => Ok(Some(own)),
            (None, Reach::Installation) => Ok(None),
        }
    }
}

/// Reads a body of at most `BODY_MAX` bytes.
pub(crate) async fn read(body: Body) -> Answer<Bytes> {
    let read = Limited::new(body, BODY_MAX).collect().await.map_err(|why| {
        if why.is::<LengthLimitError>() {
            Refusal::BodyTooLarge { max: BODY_MAX }
        } else if BodyTimeout::caused(&*why) {
            Refusal::BodyTimeout
        } else {
            Refusal::BodyInvalid { why: "it ended early".to_owned() }
        }
    })?;
    Ok(read.to_bytes())
}

/// An id or a name; a text that parses as an id is an id.
pub(crate) fn reference<Id, Name>(text: &str) -> Option<Ref<Id, Name>>
where
    Id: std::str::FromStr,
    Name: std::str::FromStr,
{
    text.parse().map(Ref::Id).ok().or_else(|| text.parse().map(Ref::Name).ok())
}

/// An optional timestamp in the body.
pub(crate) fn time(field: &str, text: Option<&str>) -> Answer<Option<Timestamp>> {
    let Some(text) = text else { return Ok(None) };
    let read = Timestamp::from_rfc3339(text).map(Some);
    let why = || format!("\"{field}\" is not a UTC time in RFC 3339, such as 2026-01-31T12:00:00Z");
    read.ok_or_else(|| Refusal::BodyInvalid { why: why() }.into())
}

/// Cursor and limit of a list.
pub(crate) fn paging(after: Option<String>, limit: Option<u32>) -> Answer<Paging> {
    let limit = limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        let why = format!("\"limit\" {limit} is not within 1 and {LIMIT_MAX}");
        return Err(Refusal::QueryInvalid { why }.into());
    }
    Ok(Paging { after: after.filter(|it| !it.is_empty()), limit })
}

pub(crate) fn ok(body: &impl Serialize) -> Answer<Response<Body>> {
    answer(200, body)
}

pub(crate) fn created(body: &impl Serialize) -> Answer<Response<Body>> {
    answer(201, body)
}

pub(crate) fn accepted(body: &impl Serialize) -> Answer<Response<Body>> {
    answer(202, body)
}

fn answer(status: u16, body: &impl Serialize) -> Answer<Response<Body>> {
    let text = serde_json::to_vec(body);
    let text = text.map_err(|why| Failure::Broken { what: why.to_string() })?;
    Ok(problem::written(status, "application/json", text))
}

pub(crate) fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = axum::http::StatusCode::NO_CONTENT;
    response
}

pub(crate) fn page<T, W: Serialize>(
    page: Page<T>,
    render: impl Fn(&T) -> W,
) -> Answer<Response<Body>> {
    let items: Vec<W> = page.items.iter().map(render).collect();
    ok(&List { items, next_cursor: page.next })
}

/// A list without further pages.
pub(crate) fn all<T, W: Serialize>(
    items: Vec<T>,
    render: impl Fn(&T) -> W,
) -> Answer<Response<Body>> {
    self::page(Page { items, next: None }, render)
}

/// A parser's message without the values it quotes: one of them may be a secret.
fn redacted(why: &str) -> String {
    let (Some(first), Some(last)) = (why.find('"'), why.rfind('"')) else {
        return bounded(why);
    };
    let rest = why.get(last + 1..).unwrap_or_default();
    bounded(&format!("{}…{rest}", why.get(..first).unwrap_or_default()))
}

fn bounded(why: &str) -> String {
    let visible = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    why.chars().take(MESSAGE_MAX).map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: HC-9
    #[test]
    fn an_error_message_does_not_repeat_values() {
        let why = serde_json::from_str::<u8>(r#""ubt_\"canary\"""#).unwrap_err().to_string();
        assert!(why.contains("canary"));
        let redacted = redacted(&why);
        assert!(!redacted.contains("canary") && redacted.contains("expected u8"), "{redacted}");
    }
}
