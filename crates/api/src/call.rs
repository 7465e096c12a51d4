//! One request on its way to a port: what it brought, checked piece by piece.

use axum::body::Body;
use axum::http::{HeaderMap, Response, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use usher_domain::idempotency;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId};
use usher_domain::object::offender::shortened;
use usher_domain::operators::Reach;
use usher_domain::projects::Project;
use usher_kernel::Timestamp;

use crate::ports::{Answer, Failure, Ports};
use crate::problem;
use crate::refusal::{Refusal, Thing};
use crate::surface::Surface;
use crate::views::{Caller, KeyUse, Page, Paging, Ref};
use usher_domain::broker::refusal::Refusal as Broker;
use usher_wire::operator::List;

/// The longest body.
pub const BODY_MAX: usize = 1024 * 1024;
/// The most items of one page.
pub const LIMIT_MAX: u32 = 500;
/// As many items has a page of which nothing else is said.
pub const LIMIT: u32 = 100;
/// The header that makes a declaration repeatable.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The longest complaint about a body or a query, in characters.
const COMPLAINT_MAX: usize = 240;

/// A request that was let in.
pub(crate) struct Call {
    pub(crate) surface: Surface,
    pub(crate) admitted: Admitted,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// By which right it was let in.
#[derive(Clone, Debug)]
pub(crate) enum Admitted {
    /// None is needed.
    Anybody,
    /// As an operator.
    Caller(Caller),
    /// As a node.
    Node(PeerId),
}

impl Call {
    pub(crate) fn ports(&self) -> &Ports {
        &self.surface.ports
    }

    /// Who asks; a route that needs nobody has nobody.
    pub(crate) fn caller(&self) -> Answer<&Caller> {
        match &self.admitted {
            Admitted::Caller(caller) => Ok(caller),
            Admitted::Anybody | Admitted::Node(_) => Err(Refusal::Unauthenticated.into()),
        }
    }

    /// Which node asks.
    pub(crate) fn node(&self) -> Answer<PeerId> {
        match &self.admitted {
            Admitted::Node(node) => Ok(*node),
            Admitted::Anybody | Admitted::Caller(_) => Err(Refusal::Unauthenticated.into()),
        }
    }

    /// A piece of the path.
    pub(crate) fn param(&self, name: &str) -> Answer<&str> {
        let found = self.params.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .ok_or_else(|| Failure::Broken { what: format!("the path has no \"{name}\"") })
    }

    /// The query, without anything that nobody knows.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Answer<T> {
        let uri = format!("/?{}", self.query).parse::<axum::http::Uri>();
        let invalid = |why: &str| Failure::from(Refusal::QueryInvalid { why: cleaned(why) });
        let uri = uri.map_err(|_| invalid("it is malformed"))?;
        let read = axum::extract::Query::<T>::try_from_uri(&uri);
        let read = read.map_err(|why| {
            let source = std::error::Error::source(&why).map(ToString::to_string);
            invalid(&source.unwrap_or_else(|| "it is malformed".to_owned()))
        })?;
        Ok(read.0)
    }

    /// The body, of the expected shape.
    pub(crate) fn body<T: DeserializeOwned>(&self) -> Answer<T> {
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let kind = kind.and_then(|it| it.split(';').next()).map(str::trim);
        if !kind.is_some_and(|it| it.eq_ignore_ascii_case("application/json")) {
            return Err(Refusal::ContentTypeUnsupported.into());
        }
        // A struct can be read from a list as well, which the document does not say.
        if self.body.trim_ascii_start().first() == Some(&b'[') {
            let why = "it is a list and no object".to_owned();
            return Err(Refusal::BodyInvalid { why }.into());
        }
        let read = serde_json::from_slice(&self.body);
        read.map_err(|why| Refusal::BodyInvalid { why: cleaned(&why.to_string()) }.into())
    }

    /// The key that makes the request repeatable, with the digest of what is asked for.
    pub(crate) fn key(&self, request: &impl Serialize) -> Answer<Option<KeyUse>> {
        let mut values = self.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        if values.next().is_some() {
            return Err(idempotency::Refusal::Invalid { text: shortened(&text) }.into());
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

    /// The resource of the path, if the caller's reach covers it. What lies beyond is not there.
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

    /// The project a listing is confined to: the one that was asked for, within the caller's reach.
    pub(crate) async fn confined(&self, asked: Option<&str>) -> Answer<Option<ProjectId>> {
        match (asked, self.caller()?.grant.reach()) {
            (Some(text), _) => Ok(Some(self.project(text).await?.id)),
            (None, Reach::Project(own)) => Ok(Some(own)),
            (None, Reach::Installation) => Ok(None),
        }
    }
}

/// Reads a body to its end, if it is not too long.
pub(crate) async fn read(body: Body) -> Answer<Bytes> {
    let read = Limited::new(body, BODY_MAX).collect().await.map_err(|why| {
        if why.is::<LengthLimitError>() {
            Refusal::BodyTooLarge { max: BODY_MAX }
        } else {
            Refusal::BodyInvalid { why: "it ended early".to_owned() }
        }
    })?;
    Ok(read.to_bytes())
}

/// An id or a name; a text in the form of an id is an id.
pub(crate) fn reference<Id, Name>(text: &str) -> Option<Ref<Id, Name>>
where
    Id: std::str::FromStr,
    Name: std::str::FromStr,
{
    text.parse().map(Ref::Id).ok().or_else(|| text.parse().map(Ref::Name).ok())
}

/// A time that was given, or nothing.
pub(crate) fn time(field: &str, text: Option<&str>) -> Answer<Option<Timestamp>> {
    let Some(text) = text else { return Ok(None) };
    let read = Timestamp::from_rfc3339(text).map(Some);
    let why = || format!("\"{field}\" is no time of RFC 3339 in UTC");
    read.ok_or_else(|| Refusal::BodyInvalid { why: why() }.into())
}

/// How a listing is asked for.
pub(crate) fn paging(after: Option<String>, limit: Option<u32>) -> Answer<Paging> {
    let limit = limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        let why = format!("\"limit\" is not within 1 and {LIMIT_MAX}");
        return Err(Refusal::QueryInvalid { why }.into());
    }
    Ok(Paging { after: after.filter(|it| !it.is_empty()), limit })
}

/// One thing, answered.
pub(crate) fn ok(body: &impl Serialize) -> Answer<Response<Body>> {
    answer(200, body)
}

/// One thing, made.
pub(crate) fn created(body: &impl Serialize) -> Answer<Response<Body>> {
    answer(201, body)
}

/// One thing, on its way.
pub(crate) fn accepted(body: &impl Serialize) -> Answer<Response<Body>> {
    answer(202, body)
}

fn answer(status: u16, body: &impl Serialize) -> Answer<Response<Body>> {
    let text = serde_json::to_vec(body);
    let text = text.map_err(|why| Failure::Broken { what: why.to_string() })?;
    Ok(problem::written(status, "application/json", text))
}

/// Nothing to say.
pub(crate) fn nothing() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = axum::http::StatusCode::NO_CONTENT;
    response
}

/// A page, rendered.
pub(crate) fn page<T, W: Serialize>(
    page: Page<T>,
    render: impl Fn(&T) -> W,
) -> Answer<Response<Body>> {
    let items: Vec<W> = page.items.iter().map(render).collect();
    ok(&List { items, next_cursor: page.next })
}

/// Everything there is, rendered as one page.
pub(crate) fn all<T, W: Serialize>(
    items: Vec<T>,
    render: impl Fn(&T) -> W,
) -> Answer<Response<Body>> {
    self::page(Page { items, next: None }, render)
}

/// A parser's complaint without the values it quotes: one of them may be a secret.
fn cleaned(why: &str) -> String {
    let (Some(first), Some(last)) = (why.find('"'), why.rfind('"')) else {
        return bounded(why);
    };
    let rest = why.get(last + 1..).unwrap_or_default();
    bounded(&format!("{}…{rest}", why.get(..first).unwrap_or_default()))
}

fn bounded(why: &str) -> String {
    let visible = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    why.chars().take(COMPLAINT_MAX).map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: HC-9
    #[test]
    fn a_complaint_does_not_repeat_what_was_sent() {
        let why = serde_json::from_str::<u8>(r#""ubt_\"canary\"""#).unwrap_err().to_string();
        assert!(why.contains("canary"));
        let cleaned = cleaned(&why);
        assert!(!cleaned.contains("canary") && cleaned.contains("expected u8"), "{cleaned}");
    }
}
