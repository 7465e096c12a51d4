//! Operator tokens and the audit log.

use axum::body::Body;
use axum::http::{Method, Response};
use usher_domain::audit;
use usher_domain::object::id::OperatorTokenId;
use usher_domain::object::offender::shortened;
use usher_domain::operators::{Grant, OperatorToken, Reach, Role};
use usher_wire::http::Secret;
use usher_wire::operator as wire;

use super::Paged;
use crate::call::{Call, created, no_content, ok, page, time};
use crate::ports::{Answer, Failure};
use crate::refusal::{Refusal, Thing};
use crate::render;
use crate::route::{PAGED, Right, Route};
use crate::views::NewOperatorToken;

const TOKENS: &str = "/v1/operator-tokens";
const TOKEN: &str = "/v1/operator-tokens/{id}";

pub(super) fn routes() -> Vec<Route> {
    let viewer = Right::Project(Role::Viewer);
    let admin = Right::Installation(Role::Admin);
    vec![
        Route::new((Method::GET, "/v1/whoami"), viewer, "Get the calling token", whoami)
            .gives::<wire::Whoami>(200),
        Route::new((Method::GET, TOKENS), admin, "List operators' tokens", list)
            .lists::<wire::OperatorToken>(PAGED),
        Route::new((Method::POST, TOKENS), admin, "Create an operator's token", create)
            .takes::<wire::CreateOperatorToken>()
            .gives::<wire::IssuedOperatorToken>(201),
        Route::new((Method::DELETE, TOKEN), admin, "Revoke an operator's token", revoke),
        Route::new((Method::GET, "/v1/audit"), admin, "List the audit log", audit)
            .lists::<wire::AuditEntry>(PAGED),
    ]
}

fn project(reach: Reach) -> Option<String> {
    match reach {
        Reach::Installation => None,
        Reach::Project(id) => Some(id.to_string()),
    }
}

fn token(it: &OperatorToken) -> wire::OperatorToken {
    wire::OperatorToken {
        id: it.id.to_string(),
        name: it.name.to_string(),
        role: it.grant.role().to_string(),
        project: project(it.grant.reach()),
        expires_at: render::maybe(it.expires_at),
        revoked_at: render::maybe(it.revoked_at),
    }
}

fn entry(it: &audit::Entry) -> wire::AuditEntry {
    wire::AuditEntry {
        id: it.id.to_string(),
        at: render::time(it.at),
        actor: it.actor.clone(),
        action: it.action.to_string(),
        project: it.project.map(|it| it.to_string()),
        subject: it.subject.clone(),
        detail: it.detail.clone(),
    }
}

async fn whoami(call: Call) -> Answer<Response<Body>> {
    let caller = call.caller()?;
    ok(&wire::Whoami {
        name: caller.name.to_string(),
        role: caller.grant.role().to_string(),
        project: project(caller.grant.reach()),
    })
}

async fn list(call: Call) -> Answer<Response<Body>> {
    let paging = call.query::<Paged>()?.paging()?;
    page(call.ports().operators.list(paging).await?, token)
}

async fn create(call: Call) -> Answer<Response<Body>> {
    let body: wire::CreateOperatorToken = call.body()?;
    let role: Role = body.role.parse().map_err(|_| Refusal::BodyInvalid {
        why: "\"role\" is not one of viewer, operator, admin".to_owned(),
    })?;
    let project = match &body.project {
        Some(text) => Some(call.project(text).await?.id),
        None => None,
    };
    let new = NewOperatorToken {
        name: body.name.parse().map_err(Failure::from)?,
        grant: Grant::new(role, project).map_err(Failure::from)?,
        expires_at: time("expires_at", body.expires_at.as_deref())?,
    };
    let (made, text) = call.ports().operators.create(call.caller()?, new).await?;
    created(&wire::IssuedOperatorToken { token: token(&made), text: Secret::new(text.expose()) })
}

async fn revoke(call: Call) -> Answer<Response<Body>> {
    let text = call.param("id")?;
    let missing =
        || Failure::from(Refusal::NotFound { thing: Thing::OperatorToken, what: shortened(text) });
    let id: OperatorTokenId = text.parse().map_err(|_| missing())?;
    call.ports().operators.revoke(call.caller()?, id).await?;
    Ok(no_content())
}

async fn audit(call: Call) -> Answer<Response<Body>> {
    let paging = call.query::<Paged>()?.paging()?;
    page(call.ports().operators.audit(paging).await?, entry)
}
