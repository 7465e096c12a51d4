//! Metrics of requests. Labels come from closed sets only: routes, methods, statuses.

use std::time::Duration;

use axum::http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Histogram buckets, in seconds.
const BOUNDS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    method: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Took {
    route: &'static str,
}

#[derive(Clone, Debug)]
pub struct Metrics {
    answered: Family<Answered, Counter>,
    took: Family<Took, Histogram>,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let answered = Family::default();
        let took = Family::new_with_constructor((|| Histogram::new(BOUNDS)) as fn() -> Histogram);
        registry.register("http_requests", "Answered requests", answered.clone());
        registry.register(
            "http_request_duration_seconds",
            "Time until the response headers were sent",
            took.clone(),
        );
        Self { answered, took }
    }

    pub(crate) fn count(&self, route: &'static str, method: &Method, status: u16, took: Duration) {
        let answered = Answered { route, method: method.to_string(), status };
        self.answered.get_or_create(&answered).inc();
        self.took.get_or_create(&Took { route }).observe(took.as_secs_f64());
    }
}
