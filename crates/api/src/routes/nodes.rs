//! Bootstrap tokens and the nodes they became, as operators see them.

use axum::body::Body;
use axum::http::{Method, Response};
use usher_domain::object::id::PeerId;
use usher_domain::object::offender::shortened;
use usher_domain::operators::Role;
use usher_wire::operator as wire;

use super::{PAGED_PROJECT, PagedProject};
use crate::call::{Call, accepted, ok, page, paging};
use crate::ports::{Answer, Failure};
use crate::refusal::{Refusal, Thing};
use crate::render;
use crate::route::{AFTER, Kind, LIMIT, QueryParam, Right, Route, param};
use crate::views::{NodeQuery, NodeView, TokenView};

/// The query of a node listing.
const QUERY: &[QueryParam] = &[
    param("project", Kind::Text, "Only of this project, by slug or id"),
    param("all", Kind::Flag, "Also deregistered ones"),
    AFTER,
    LIMIT,
];

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    project: Option<String>,
    #[serde(default)]
    all: bool,
    after: Option<String>,
    limit: Option<u32>,
}

pub(super) fn routes() -> Vec<Route> {
    let viewer = Right::Project(Role::Viewer);
    let admin = Right::Installation(Role::Admin);
    vec![
        Route::new((Method::GET, "/v1/tokens"), viewer, "List bootstrap tokens", tokens)
            .lists::<wire::Token>(PAGED_PROJECT),
        Route::new((Method::GET, "/v1/nodes"), viewer, "List nodes", list)
            .lists::<wire::Node>(QUERY),
        Route::new((Method::GET, "/v1/nodes/{id}"), viewer, "Get a node", get)
            .gives::<wire::Node>(200),
        Route::new(
            (Method::POST, "/v1/nodes/{id}/force"),
            admin,
            "Force the end of a drain",
            force,
        )
        .gives::<wire::Node>(202),
    ]
}

fn token(it: &TokenView) -> wire::Token {
    let row = &it.token;
    let state = match (&row.consumed, row.revoked_at, it.redeemable) {
        (Some(_), _, _) => "consumed",
        (None, Some(_), _) => "revoked",
        (None, None, true) => "redeemable",
        (None, None, false) => "ended",
    };
    wire::Token {
        id: row.id.to_string(),
        resource: row.resource.to_string(),
        project: row.project.to_string(),
        generation: row.generation.0.into(),
        state: state.to_owned(),
        issued_at: render::time(row.issued_at),
        expires_at: render::time(row.expires_at()),
        node: row.consumed.as_ref().map(|it| it.peer.to_string()),
        revoked_at: render::maybe(row.revoked_at),
    }
}

fn node(it: &NodeView) -> wire::Node {
    let registration = &it.peer.registration;
    wire::Node {
        id: it.peer.id.to_string(),
        name: it.resource.clone(),
        resource: registration.resource.to_string(),
        project: registration.project.to_string(),
        generation: registration.generation.0.into(),
        stage: it.peer.stage.as_str().to_owned(),
        liveness: it.liveness.as_str().to_owned(),
        unknown_since: render::maybe(it.unknown.map(|it| it.0)),
        lost_at: render::maybe(it.unknown.map(|it| it.1)),
        registered_at: render::time(it.peer.registered_at),
        last_heartbeat_at: render::maybe(it.last_heartbeat_at),
        agent_version: it.agent_version.clone(),
    }
}

async fn tokens(call: Call) -> Answer<Response<Body>> {
    let PagedProject { project, after, limit } = call.query()?;
    let paging = paging(after, limit)?;
    let project = call.project_filter(project.as_deref()).await?;
    page(call.ports().nodes.tokens(project, paging).await?, token)
}

async fn list(call: Call) -> Answer<Response<Body>> {
    let Params { project, all, after, limit } = call.query()?;
    let paging = paging(after, limit)?;
    let query = NodeQuery { project: call.project_filter(project.as_deref()).await?, all };
    page(call.ports().nodes.list(query, paging).await?, node)
}

async fn found(call: &Call) -> Answer<NodeView> {
    let text = call.param("id")?;
    let missing = || Failure::from(Refusal::NotFound { thing: Thing::Node, what: shortened(text) });
    let id: PeerId = text.parse().map_err(|_| missing())?;
    let found = call.ports().nodes.get(id).await?;
    let covered = call.caller()?.grant.reach().covers(found.peer.registration.project);
    if covered { Ok(found) } else { Err(missing()) }
}

async fn get(call: Call) -> Answer<Response<Body>> {
    ok(&node(&found(&call).await?))
}

async fn force(call: Call) -> Answer<Response<Body>> {
    let id = found(&call).await?.peer.id;
    accepted(&node(&call.ports().nodes.force(call.caller()?, id).await?))
}
