//! What has no owner, and the rails that hold absence.

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
    let looks = Right::Installation(Role::Viewer);
    let decides = Right::Installation(Role::Admin);
    vec![
        Route::new((Method::GET, "/v1/orphans"), looks, "List what has no owner", list)
            .lists::<wire::Orphan>(PAGED),
        Route::new((Method::POST, "/v1/orphans/reap"), decides, "Show it out after all", reap)
            .lists::<wire::Orphan>(&[]),
        Route::new((Method::GET, "/v1/rails"), looks, "List rails", rails).lists::<wire::Rail>(&[]),
        Route::new((Method::POST, "/v1/rails/{world}/open"), decides, "Open a rail", open)
            .gives::<wire::Rail>(200),
    ]
}

async fn list(call: Call) -> Answer<Response<Body>> {
    let paging = call.query::<Paged>()?.paging()?;
    page(call.ports().orphans.orphans(paging).await?, render::orphan)
}

async fn reap(call: Call) -> Answer<Response<Body>> {
    all(call.ports().orphans.reap(call.caller()?).await?, render::orphan)
}

async fn rails(call: Call) -> Answer<Response<Body>> {
    all(call.ports().orphans.rails().await?, render::rail)
}

async fn open(call: Call) -> Answer<Response<Body>> {
    let opened = call.ports().orphans.open_rail(call.caller()?, call.param("world")?).await?;
    ok(&render::rail(&opened))
}
