//! Liveness, readiness, metrics and the `OpenAPI` document.

use axum::body::Body;
use axum::http::{Method, Response};
use prometheus_client::encoding::text::encode;
use usher_domain::operators::Role;
use usher_wire::operator as wire;

use crate::call::{Call, no_content, ok};
use crate::ports::{Answer, Failure};
use crate::problem;
use crate::route::{Right, Route};
use crate::views::Check;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes() -> Vec<Route> {
    let viewer = Right::Installation(Role::Viewer);
    vec![
        Route::new((Method::GET, "/healthz"), Right::Public, "Liveness probe", healthz),
        Route::new((Method::GET, "/readyz"), Right::Public, "Readiness probe", readyz)
            .gives::<wire::Ready>(200),
        Route::new((Method::GET, "/metrics"), viewer, "Prometheus metrics", metrics)
            .prints(METRICS_TYPE),
        Route::new((Method::GET, "/openapi.json"), Right::Public, "OpenAPI document", document)
            .prints("application/json"),
    ]
}

async fn healthz(_: Call) -> Answer<Response<Body>> {
    Ok(no_content())
}

fn check(it: &Check) -> wire::Check {
    wire::Check { name: it.name.clone(), ok: it.failing.is_none(), detail: it.failing.clone() }
}

/// Failing checks are named in the detail of the problem.
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
    encode(&mut text, &call.state.registry)
        .map_err(|_| Failure::Broken { what: "failed to encode metrics".to_owned() })?;
    Ok(problem::written(200, METRICS_TYPE, text.into_bytes()))
}

async fn document(call: Call) -> Answer<Response<Body>> {
    let text = call.state.document.as_bytes().to_vec();
    Ok(problem::written(200, "application/json", text))
}
