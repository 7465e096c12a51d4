//! Resources: declare, read, explain, deprovision.

use axum::body::Body;
use axum::http::{Method, Response};
use serde::Deserialize;
use usher_domain::broker::accept;
use usher_domain::broker::refusal::Refusal as Broker;
use usher_domain::object::offender::shortened;
use usher_domain::operators::Role;
use usher_wire::operator as wire;

use super::keys;
use crate::call::{Call, accepted, ok, page, paging};
use crate::ports::{Answer, Failure};
use crate::render;
use crate::route::{AFTER, Kind, LIMIT, QueryParam, Right, Route, param};
use crate::views::ResourceQuery;

const QUERY: &[QueryParam] = &[
    param("project", Kind::Text, "Only of this project, by slug or id"),
    param("name", Kind::Text, "Only the newest resource of this name, per project"),
    param("deleted", Kind::Flag, "Also deleted ones"),
    AFTER,
    LIMIT,
];

pub(super) fn routes() -> Vec<Route> {
    let one = "/v1/resources/{id}";
    let viewer = Right::Project(Role::Viewer);
    let operator = Right::Project(Role::Operator);
    let admin = Right::Installation(Role::Admin);
    vec![
        Route::new((Method::GET, "/v1/resources"), viewer, "List resources", list)
            .lists::<wire::Resource>(QUERY),
        Route::new((Method::POST, "/v1/resources"), operator, "Provision a resource", provision)
            .takes::<wire::Provision>()
            .gives::<wire::Resource>(202)
            .keyed(),
        Route::new((Method::GET, one), viewer, "Get a resource", get).gives::<wire::Resource>(200),
        Route::new((Method::DELETE, one), operator, "Deprovision a resource", deprovision)
            .gives::<wire::Resource>(202),
        Route::new((Method::GET, "/v1/resources/{id}/why"), viewer, "Explain a resource", why)
            .gives::<wire::Why>(200),
        Route::new((Method::GET, "/v1/resources/{id}/plan"), viewer, "Plan the deletion", plan)
            .gives::<wire::Plan>(200),
        Route::new((Method::GET, "/v1/resources/{id}/receipt"), viewer, "Get the receipt", receipt)
            .gives::<wire::Receipt>(200),
        Route::new((Method::POST, "/v1/resources/{id}/retry"), operator, "Reconcile it now", retry)
            .gives::<wire::Resource>(202),
        Route::new((Method::POST, "/v1/resources/{id}/replace"), operator, "Replace it", replace)
            .gives::<wire::Resource>(202),
        Route::new((Method::POST, "/v1/resources/{id}/abandon"), admin, "Abandon it", abandon)
            .takes::<wire::Abandon>()
            .gives::<wire::Resource>(202),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    project: Option<String>,
    name: Option<String>,
    #[serde(default)]
    deleted: bool,
    after: Option<String>,
    limit: Option<u32>,
}

async fn list(call: Call) -> Answer<Response<Body>> {
    let Params { project, name, deleted, after, limit } = call.query()?;
    let paging = paging(after, limit)?;
    let project = call.project_filter(project.as_deref()).await?;
    let query = ResourceQuery { project, name, deleted };
    page(call.ports().resources.list(query, paging).await?, render::resource)
}

async fn provision(call: Call) -> Answer<Response<Body>> {
    let body: wire::Provision = call.body()?;
    let key = call.key(&body)?;
    let project = call.project(&body.project).await?.id;
    let missing = |text: &str| shortened(text);
    let blueprint = body
        .blueprint
        .parse()
        .map_err(|_| Failure::from(Broker::BlueprintNotFound { what: missing(&body.blueprint) }))?;
    let credential = body.credential.parse().map_err(|_| {
        Failure::from(Broker::CredentialNotFound { what: missing(&body.credential) })
    })?;
    let resources = &call.ports().resources;
    let blueprint = (&blueprint, body.version.as_deref());
    let (blueprint_version, credential) = resources.references(blueprint, &credential).await?;
    let command = accept::Provision {
        name: body.name,
        project,
        blueprint_version,
        credential,
        parameters: body.parameters,
    };
    let made = resources.provision(call.caller()?, command, key).await?;
    let answer = render::resource(&made.resource);
    if made.replayed { ok(&answer) } else { accepted(&answer) }
}

async fn get(call: Call) -> Answer<Response<Body>> {
    let id = call.resource().await?;
    ok(&render::resource(&call.ports().resources.get(id).await?))
}

async fn deprovision(call: Call) -> Answer<Response<Body>> {
    let id = call.resource().await?;
    accepted(&render::resource(&call.ports().resources.deprovision(call.caller()?, id).await?))
}

async fn why(call: Call) -> Answer<Response<Body>> {
    let id = call.resource().await?;
    ok(&render::why(&call.ports().resources.why(id).await?))
}

async fn plan(call: Call) -> Answer<Response<Body>> {
    let id = call.resource().await?;
    ok(&render::plan(&call.ports().resources.plan_deprovision(id).await?))
}

async fn receipt(call: Call) -> Answer<Response<Body>> {
    let id = call.resource().await?;
    keys::sealed(&call, render::receipt(&call.ports().resources.receipt(id).await?)).await
}

async fn retry(call: Call) -> Answer<Response<Body>> {
    let id = call.resource().await?;
    accepted(&render::resource(&call.ports().resources.retry(call.caller()?, id).await?))
}

async fn replace(call: Call) -> Answer<Response<Body>> {
    let id = call.resource().await?;
    accepted(&render::resource(&call.ports().resources.replace(call.caller()?, id).await?))
}

async fn abandon(call: Call) -> Answer<Response<Body>> {
    let wire::Abandon { reason } = call.body()?;
    let id = call.resource().await?;
    let given_up = call.ports().resources.abandon(call.caller()?, id, &reason).await?;
    accepted(&render::resource(&given_up))
}
