//! Whether this process lives and can serve, what it measured, and what it can be asked.

use axum::body::Body;
use axum::http::{Method, Response};
use prometheus_client::encoding::text::encode;
use usher_domain::operators::Role;
use usher_wire::operator as wire;

use crate::call::{Call, nothing, ok};
use crate::ports::{Answer, Failure};
use crate::problem;
use crate::route::{Right, Route};
use crate::views::Check;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes() -> Vec<Route> {
    let looks = Right::Installation(Role::Viewer);
    vec![
        Route::new((Method::GET, "/healthz"), Right::Anybody, "Say that it lives", healthz),
        Route::new((Method::GET, "/readyz"), Right::Anybody, "Say whether it can serve", readyz)
            .gives::<wire::Ready>(200),
        Route::new((Method::GET, "/metrics"), looks, "Show what was measured", metrics)
            .prints(METRICS_TYPE),
        Route::new((Method::GET, "/openapi.json"), Right::Anybody, "Show this document", document)
            .prints("application/json"),
    ]
}

async fn healthz(_: Call) -> Answer<Response<Body>> {
    Ok(nothing())
}

fn check(it: &Check) -> wire::Check {
    wire::Check { name: it.name.clone(), ok: it.failing.is_none(), detail: it.failing.clone() }
}

/// What fails is named in the problem's one sentence; the names are the checks' own.
async fn readyz(call: Call) -> Answer<Response<Body>> {
    let checks = call.ports().readiness.checks().await;
    let failing = checks.iter().filter(|it| it.failing.is_some()).map(|it| it.name.as_str());
    let failing: Vec<&str> = failing.collect();
    if !failing.is_empty() {
        return Err(Failure::Unavailable { what: failing.join(", ") });
    }
    ok(&wire::Ready { ready: true, checks: checks.iter().map(check).collect() })
}

async fn metrics(call: Call) -> Answer<Response<Body>> {
    let mut text = String::new();
    encode(&mut text, &call.surface.registry)
        .map_err(|_| Failure::Broken { what: "cannot write metrics".to_owned() })?;
    Ok(problem::written(200, METRICS_TYPE, text.into_bytes()))
}

async fn document(call: Call) -> Answer<Response<Body>> {
    let text = call.surface.document.as_bytes().to_vec();
    Ok(problem::written(200, "application/json", text))
}
