//! Credentials and their assignments to projects.

use axum::body::Body;
use axum::http::{Method, Response};
use usher_domain::broker::refusal::Refusal as Broker;
use usher_domain::credentials::{KvCoordinates, Verdict};
use usher_domain::object::id::CredentialId;
use usher_domain::object::offender::shortened;
use usher_domain::object::slug::Slug;
use usher_domain::operators::Role;
use usher_wire::operator as wire;

use super::Paged;
use crate::call::{Call, all, created, no_content, ok, page, reference, time};
use crate::ports::{Answer, Failure};
use crate::render;
use crate::route::{PAGED, Right, Route};
use crate::views::{AssignmentKey, AssignmentView, CredentialView, NewCredential, Ref};

const ONE: &str = "/v1/credentials/{credential}";
const REVOKE: &str = "/v1/credentials/{credential}/revoke";
const ASSIGNMENTS: &str = "/v1/projects/{project}/assignments";
const ASSIGNMENT: &str = "/v1/projects/{project}/assignments/{credential}";
const APPROVE: &str = "/v1/projects/{project}/assignments/{credential}/approve";
const REJECT: &str = "/v1/projects/{project}/assignments/{credential}/reject";
const WITHDRAW: &str = "/v1/projects/{project}/assignments/{credential}/revoke";

pub(super) fn routes() -> Vec<Route> {
    let viewer_of_all = Right::Installation(Role::Viewer);
    let viewer = Right::Project(Role::Viewer);
    let operator = Right::Project(Role::Operator);
    let admin = Right::Installation(Role::Admin);
    vec![
        Route::new((Method::GET, "/v1/credentials"), viewer_of_all, "List credentials", list)
            .lists::<wire::Credential>(PAGED),
        Route::new((Method::POST, "/v1/credentials"), admin, "Create a credential", create)
            .takes::<wire::CreateCredential>()
            .gives::<wire::Credential>(201),
        Route::new((Method::GET, ONE), viewer_of_all, "Get a credential", get)
            .gives::<wire::Credential>(200),
        Route::new((Method::POST, REVOKE), admin, "Revoke a credential", revoke)
            .gives::<wire::Credential>(200),
        Route::new((Method::DELETE, ONE), admin, "Delete a credential", delete),
        Route::new((Method::GET, ASSIGNMENTS), viewer, "List assignments", assignments)
            .lists::<wire::Assignment>(&[]),
        Route::new((Method::POST, ASSIGNMENTS), operator, "Request a credential", request)
            .takes::<wire::RequestAssignment>()
            .gives::<wire::Assignment>(201),
        Route::new((Method::POST, APPROVE), admin, "Approve an assignment", approve)
            .gives::<wire::Assignment>(200),
        Route::new((Method::POST, REJECT), admin, "Reject an assignment", reject)
            .gives::<wire::Assignment>(200),
        Route::new((Method::POST, WITHDRAW), admin, "Revoke an assignment", withdraw)
            .gives::<wire::Assignment>(200),
        Route::new((Method::DELETE, ASSIGNMENT), admin, "Delete an assignment", unassign),
    ]
}

fn credential(it: &CredentialView) -> wire::Credential {
    let row = &it.credential;
    wire::Credential {
        id: row.id.to_string(),
        name: row.name.to_string(),
        cloud: it.cloud.to_string(),
        provider: row.provider.to_string(),
        mount: row.coordinates.mount().to_owned(),
        path: row.coordinates.path().to_owned(),
        status: it.status.as_str().to_owned(),
        expires_at: render::maybe(row.expires_at),
        revoked_at: render::maybe(row.revoked_at),
    }
}

fn assignment(it: &AssignmentView) -> wire::Assignment {
    let row = &it.assignment;
    wire::Assignment {
        project: it.project.to_string(),
        credential: it.credential.to_string(),
        state: row.state.as_str().to_owned(),
        requested_by: row.requested_by.clone(),
        decided_by: row.decided_by.clone(),
        decided_at: render::maybe(row.decided_at),
    }
}

fn meant(text: &str) -> Answer<Ref<CredentialId, Slug>> {
    let missing = || Failure::from(Broker::CredentialNotFound { what: shortened(text) });
    reference(text).ok_or_else(missing)
}

async fn list(call: Call) -> Answer<Response<Body>> {
    let paging = call.query::<Paged>()?.paging()?;
    page(call.ports().credentials.list(paging).await?, credential)
}

async fn create(call: Call) -> Answer<Response<Body>> {
    let body: wire::CreateCredential = call.body()?;
    let missing = || Failure::from(Broker::CloudNotFound { what: shortened(&body.cloud) });
    let new = NewCredential {
        name: body.name.parse().map_err(Failure::from)?,
        cloud: reference(&body.cloud).ok_or_else(missing)?,
        coordinates: KvCoordinates::new(&body.mount, &body.path).map_err(Failure::from)?,
        expires_at: time("expires_at", body.expires_at.as_deref())?,
    };
    created(&credential(&call.ports().credentials.create(call.caller()?, new).await?))
}

async fn found(call: &Call) -> Answer<CredentialView> {
    call.ports().credentials.get(&meant(call.param("credential")?)?).await
}

async fn get(call: Call) -> Answer<Response<Body>> {
    ok(&credential(&found(&call).await?))
}

async fn revoke(call: Call) -> Answer<Response<Body>> {
    let id = found(&call).await?.credential.id;
    ok(&credential(&call.ports().credentials.revoke(call.caller()?, id).await?))
}

async fn delete(call: Call) -> Answer<Response<Body>> {
    let id = found(&call).await?.credential.id;
    call.ports().credentials.delete(call.caller()?, id).await?;
    Ok(no_content())
}

async fn assignments(call: Call) -> Answer<Response<Body>> {
    let project = call.project(call.param("project")?).await?.id;
    all(call.ports().credentials.assignments(project).await?, assignment)
}

async fn request(call: Call) -> Answer<Response<Body>> {
    let body: wire::RequestAssignment = call.body()?;
    let project = call.project(call.param("project")?).await?.id;
    let key = AssignmentKey { project, credential: meant(&body.credential)? };
    created(&assignment(&call.ports().credentials.request(call.caller()?, key).await?))
}

async fn key(call: &Call) -> Answer<AssignmentKey> {
    let project = call.project(call.param("project")?).await?.id;
    Ok(AssignmentKey { project, credential: meant(call.param("credential")?)? })
}

async fn decide(call: Call, verdict: Verdict) -> Answer<Response<Body>> {
    let key = key(&call).await?;
    ok(&assignment(&call.ports().credentials.decide(call.caller()?, key, verdict).await?))
}

async fn approve(call: Call) -> Answer<Response<Body>> {
    decide(call, Verdict::Approve).await
}

async fn reject(call: Call) -> Answer<Response<Body>> {
    decide(call, Verdict::Reject).await
}

async fn withdraw(call: Call) -> Answer<Response<Body>> {
    decide(call, Verdict::Revoke).await
}

async fn unassign(call: Call) -> Answer<Response<Body>> {
    let key = key(&call).await?;
    call.ports().credentials.unassign(call.caller()?, key).await?;
    Ok(no_content())
}
