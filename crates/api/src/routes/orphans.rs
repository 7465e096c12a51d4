//! What has no owner, and the guards that hold absence.

use axum::body::Body;
use axum::http::{Method, Response};
use usher_domain::operators::Role;
use usher_wire::operator as wire;

use super::Paged;
use crate::call::{Call, all, ok, page};
use crate::ports::Answer;
use crate::render;
use crate::route::{PAGED, Right, Route};

pub(super) fn routes() -> Vec<Route> {
    let viewer = Right::Installation(Role::Viewer);
    let admin = Right::Installation(Role::Admin);
    vec![
        Route::new((Method::GET, "/v1/orphans"), viewer, "List orphans", list)
            .lists::<wire::Orphan>(PAGED),
        Route::new((Method::POST, "/v1/orphans/reap"), admin, "Tear down reapable orphans", reap)
            .lists::<wire::Orphan>(&[]),
        Route::new((Method::GET, "/v1/guards"), viewer, "List mass-deletion guards", guards)
            .lists::<wire::Guard>(&[]),
        Route::new(
            (Method::POST, "/v1/guards/{world}/reset"),
            admin,
            "Reset a mass-deletion guard",
            reset,
        )
        .gives::<wire::Guard>(200),
    ]
}

async fn list(call: Call) -> Answer<Response<Body>> {
    let paging = call.query::<Paged>()?.paging()?;
    page(call.ports().orphans.orphans(paging).await?, render::orphan)
}

async fn reap(call: Call) -> Answer<Response<Body>> {
    all(call.ports().orphans.reap(call.caller()?).await?, render::orphan)
}

async fn guards(call: Call) -> Answer<Response<Body>> {
    all(call.ports().orphans.guards().await?, render::guard)
}

async fn reset(call: Call) -> Answer<Response<Body>> {
    let opened = call.ports().orphans.reset_guard(call.caller()?, call.param("world")?).await?;
    ok(&render::guard(&opened))
}
